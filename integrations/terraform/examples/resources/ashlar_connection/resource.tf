resource "ashlar_connection" "orders" {
  volume = ashlar_volume.orders.id
  host   = ashlar_host.db1.id
}
