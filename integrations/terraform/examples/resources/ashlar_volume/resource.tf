resource "ashlar_volume" "orders" {
  name   = "orders"
  size   = "2TiB"
  limits = { iops = 20000, bandwidth = "500MiB" }
}

# A copy of a snapshot for tests, which goes with `terraform destroy`.
resource "ashlar_volume" "copy" {
  name                = "orders-copy"
  source              = ashlar_volume_snapshot.before_upgrade.id
  deletion_protection = false
}
