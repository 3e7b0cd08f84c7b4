terraform {
  required_providers {
    ashlar = { source = "ashlar.local/ashlar/ashlar" }
  }
}

# The token comes from ASHLAR_TOKEN.
provider "ashlar" {
  url         = "https://10.0.0.1:8080"
  certificate = file("tls.pem")
}
