# By name or id
terraform import ashlar_host_group.example cluster
