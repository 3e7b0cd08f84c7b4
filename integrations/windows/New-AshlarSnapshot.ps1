<#
.SYNOPSIS
Takes snapshots of volumes, or of all volumes of a group, at one moment. Applications do not take part: the snapshots are
crash-consistent, as after a loss of power.
.EXAMPLE
./New-AshlarSnapshot.ps1 -Url https://10.0.0.1:8080 -TokenFile C:\ProgramData\Ashlar\token -Volume sql-data, sql-log
#>
[CmdletBinding(SupportsShouldProcess, DefaultParameterSetName = 'Volumes')]
param(
    [Parameter(Mandatory)][string]$Url,
    [Parameter(Mandatory)][string]$TokenFile,
    [Parameter(Mandatory, ParameterSetName = 'Volumes')][string[]]$Volume,
    [Parameter(Mandatory, ParameterSetName = 'Group')][string]$Group,
    [string]$Suffix
)
$ErrorActionPreference = 'Stop'
Import-Module (Join-Path $PSScriptRoot 'Ashlar.psm1') -Force

$Array = Connect-Ashlar -Url $Url -TokenFile $TokenFile
if (-not $Suffix) { $Suffix = New-AshlarSuffix -Word 'windows' }
$What = if ($Group) { "group $Group" } else { $Volume -join ', ' }
if (-not $PSCmdlet.ShouldProcess($What, "take snapshots with the suffix $Suffix")) { return }
if ($Group) {
    $Taken = Invoke-Ashlar -Array $Array -Method POST -Path '/snapshots' -Body @{ group = $Group; suffix = $Suffix }
} else {
    $Sources = @($Volume | ForEach-Object { @{ volume = $_ } })
    $Taken = Invoke-Ashlar -Array $Array -Method POST -Path '/snapshots' -Body @{ sources = $Sources; suffix = $Suffix }
}
$Taken.items
