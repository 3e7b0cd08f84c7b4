<#
.SYNOPSIS
Makes a Windows Server a host of an array over iSCSI: initiator, multipathing, time-outs, portals and sessions. It changes only
what differs, so it can be repeated; -WhatIf shows what it would change.
.PARAMETER Portal
Portals of the array, ADDRESS or ADDRESS:PORT.
.PARAMETER Target
The array's iSCSI name: `ashlar array show`.
.PARAMETER ChapUser
User and secret of 12 to 16 characters, if the array's host has CHAP.
.PARAMETER Url
With TokenFile and HostName: creates the host on the array, too.
.EXAMPLE
./Set-AshlarHost.ps1 -Portal 10.0.0.1, 10.0.1.1 -Target iqn.2026-01.io.ashlar:array -WhatIf
#>
#Requires -RunAsAdministrator
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][string[]]$Portal,
    [Parameter(Mandatory)][string]$Target,
    [string]$ChapUser,
    [securestring]$ChapSecret,
    [string]$Url,
    [string]$TokenFile,
    [string]$HostName = $env:COMPUTERNAME
)
$ErrorActionPreference = 'Stop'
. (Join-Path $PSScriptRoot 'Settings.ps1')

# ADDRESS, ADDRESS:PORT, IPv6 or [IPv6]:PORT.
function Split-Portal([string]$Text) {
    $Port = 3260
    $Address = $Text
    if ($Text -match '^\[(.+)\](?::(\d+))?$' -or $Text -match '^([^:]+)(?::(\d+))?$') {
        $Address = $Matches[1]
        if ($Matches[2]) { $Port = [int]$Matches[2] }
    }
    [pscustomobject]@{ Address = $Address; Port = $Port }
}

$Service = Get-Service MSiSCSI
if ($Service.StartType -ne 'Automatic' -and $PSCmdlet.ShouldProcess('MSiSCSI', 'start with Windows')) {
    Set-Service MSiSCSI -StartupType Automatic
}
if ($Service.Status -ne 'Running' -and $PSCmdlet.ShouldProcess('MSiSCSI', 'start')) { Start-Service MSiSCSI }
if (-not (Get-WindowsFeature Multipath-IO).Installed -and $PSCmdlet.ShouldProcess('Multipath-IO', 'install')) {
    if ((Install-WindowsFeature Multipath-IO).RestartNeeded -ne 'No') {
        Write-Warning 'Multipath-IO needs a restart: restart Windows, and run this script again'
        return
    }
}
foreach ($Setting in Get-AshlarSetting) {
    $Found = & $Setting.Read
    if ($Found -ne $Setting.Recommended -and $PSCmdlet.ShouldProcess($Setting.Name, "$Found -> $($Setting.Recommended)")) {
        & $Setting.Change $Setting.Recommended
    }
}

if ($Url) {
    Import-Module (Join-Path $PSScriptRoot 'Ashlar.psm1') -Force
    $Array = Connect-Ashlar -Url $Url -TokenFile $TokenFile
    $Initiator = (Get-InitiatorPort | Where-Object ConnectionType -EQ 'iSCSI' | Select-Object -First 1).NodeAddress
    if ($PSCmdlet.ShouldProcess($HostName, "create the host with the initiator $Initiator on the array")) {
        # One that exists with the same initiator is returned.
        [void](Invoke-Ashlar -Array $Array -Method POST -Path '/hosts' -Body @{ name = $HostName; initiators = @($Initiator) })
    }
}

$Chap = @{}
if ($ChapUser) {
    $Secret = (New-Object Net.NetworkCredential '', $ChapSecret).Password
    $Chap = @{ AuthenticationType = 'ONEWAYCHAP'; ChapUsername = $ChapUser; ChapSecret = $Secret }
}
foreach ($It in $Portal | ForEach-Object { Split-Portal $_ }) {
    $Known = Get-IscsiTargetPortal | Where-Object { $_.TargetPortalAddress -eq $It.Address -and $_.TargetPortalPortNumber -eq $It.Port }
    if (-not $Known -and $PSCmdlet.ShouldProcess("$($It.Address):$($It.Port)", 'add the portal')) {
        [void](New-IscsiTargetPortal -TargetPortalAddress $It.Address -TargetPortalPortNumber $It.Port)
    }
    $Session = Get-IscsiSession | Where-Object TargetNodeAddress -EQ $Target | Get-IscsiConnection |
        Where-Object { $_.TargetAddress -eq $It.Address -and $_.TargetPortNumber -eq $It.Port }
    if (-not $Session -and $PSCmdlet.ShouldProcess("$($It.Address):$($It.Port)", "log in to $Target")) {
        [void](Connect-IscsiTarget -NodeAddress $Target -TargetPortalAddress $It.Address -TargetPortalPortNumber $It.Port `
            -IsPersistent $true -IsMultipathEnabled $true @Chap)
    }
}
if ($PSCmdlet.ShouldProcess('disks', 'look for them')) { Update-HostStorageCache }
