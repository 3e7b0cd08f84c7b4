<#
.SYNOPSIS
Compares a Windows Server with what is recommended for hosts of an array, and counts the paths of its disks. It changes nothing.
.PARAMETER Paths
Paths that each disk should have: the number of the array's portals that this host uses.
.EXAMPLE
./Test-AshlarHost.ps1 -Paths 2 | Where-Object { -not $_.Good }
#>
#Requires -RunAsAdministrator
[CmdletBinding()]
param([int]$Paths = 2)
$ErrorActionPreference = 'Stop'
. (Join-Path $PSScriptRoot 'Settings.ps1')

function New-Line([string]$What, $Found, $Recommended, [bool]$Good) {
    [pscustomobject]@{ What = $What; Found = $Found; Recommended = $Recommended; Good = $Good }
}

$Service = Get-Service MSiSCSI
New-Line 'iSCSI initiator' "$($Service.Status), $($Service.StartType)" 'Running, Automatic' ($Service.Status -eq 'Running' -and $Service.StartType -eq 'Automatic')
$Installed = (Get-WindowsFeature Multipath-IO).Installed
New-Line 'Multipath-IO' $Installed $true $Installed
if (-not $Installed) { return }
foreach ($Setting in Get-AshlarSetting) {
    $Found = & $Setting.Read
    New-Line $Setting.Name $Found $Setting.Recommended ($Found -eq $Setting.Recommended)
}
foreach ($Session in Get-IscsiSession) {
    New-Line "session $($Session.TargetNodeAddress)" "persistent: $($Session.IsPersistent)" 'persistent: True' $Session.IsPersistent
}
foreach ($Info in Get-CimInstance -Namespace root\wmi -ClassName MPIO_DISK_INFO) {
    foreach ($Disk in $Info.DriveInfo) {
        New-Line "paths of $($Disk.Name)" $Disk.NumberPaths $Paths ($Disk.NumberPaths -ge $Paths)
    }
}
