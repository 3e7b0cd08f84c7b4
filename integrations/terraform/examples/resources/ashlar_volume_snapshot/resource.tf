resource "ashlar_volume_snapshot" "before_upgrade" {
  volume       = ashlar_volume.orders.id
  name         = "orders.before-upgrade"
  retain_until = "2030-12-31T23:59:59Z"
}
