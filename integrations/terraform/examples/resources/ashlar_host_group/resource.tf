resource "ashlar_host_group" "cluster" {
  name  = "cluster"
  hosts = [ashlar_host.db1.name, ashlar_host.db2.name]
}
