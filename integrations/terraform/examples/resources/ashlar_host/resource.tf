resource "ashlar_host" "db1" {
  name       = "db1"
  initiators = ["iqn.2001-04.org.example:db1"]
  chap       = { user = "db1", secret = var.chap_secret, secret_version = 1 }
}
