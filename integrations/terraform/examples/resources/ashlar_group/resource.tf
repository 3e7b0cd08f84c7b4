resource "ashlar_group" "databases" {
  name       = "databases"
  hard_quota = "20TiB"
  limits     = { bandwidth = "2GiB" }
}
