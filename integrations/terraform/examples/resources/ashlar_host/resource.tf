resource "ashlar_host" "db1" {
  name       = "db1"
  initiators = ["iqn.2001-04.org.example:db1"]
  chap       = { user = "db1", secret = var.chap_secret, secret_version = 1 }
}

resource "ashlar_host" "db2" {
  name   = "db2"
  nqns   = ["nqn.2014-08.org.nvmexpress:uuid:7d3b1c84-0d7c-4a4e-9a57-1d6f0c6e5a02"]
  dhchap = { secret = var.dhchap_secret, secret_version = 1 }
}
