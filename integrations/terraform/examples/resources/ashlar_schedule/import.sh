# By name or id
terraform import ashlar_schedule.example nightly
