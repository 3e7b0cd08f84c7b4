# By name or id
terraform import ashlar_group.example databases
