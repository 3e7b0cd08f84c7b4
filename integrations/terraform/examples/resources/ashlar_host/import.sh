# By name or id
terraform import ashlar_host.example db1
