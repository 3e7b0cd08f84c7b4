# By name or id
terraform import ashlar_volume.example orders
