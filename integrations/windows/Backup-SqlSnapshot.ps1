<#
.SYNOPSIS
Snapshot backup of databases of SQL Server 2022 or later whose files are on volumes of an array.
.DESCRIPTION
SQL Server suspends writes of the databases, the array takes the snapshots of all volumes at one moment, and
BACKUP ... WITH METADATA_ONLY records the backup and resumes writes. VSS takes no part. Whatever fails, and also after
Ctrl-C, writes are resumed: by SQL Server itself if the connection of the session that suspended them ends.

All files of all databases must be on the named volumes. Other databases with files there are in the snapshots as well, but not
consistently.
.PARAMETER MetadataFile
Where SQL Server writes the backup's metadata, as the server sees it. Without it the snapshots can't be restored as a backup: keep it elsewhere.
.PARAMETER LimitSec
About the longest time that the array may take, in three attempts.
.PARAMETER CopyOnly
Leaves the base of differential backups as it is.
.EXAMPLE
./Backup-SqlSnapshot.ps1 -Url https://10.0.0.1:8080 -TokenFile C:\ProgramData\Ashlar\token -Database shop, stock `
    -Volume sql-data, sql-log -MetadataFile \\backup\sql\shop.bkm
#>
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][string]$Url,
    [Parameter(Mandatory)][string]$TokenFile,
    [string]$Instance = 'localhost',
    [Parameter(Mandatory)][string[]]$Database,
    [Parameter(Mandatory)][string[]]$Volume,
    [Parameter(Mandatory)][string]$MetadataFile,
    [string]$Suffix,
    [int]$LimitSec = 10,
    [switch]$CopyOnly
)
$ErrorActionPreference = 'Stop'
Import-Module (Join-Path $PSScriptRoot 'Ashlar.psm1') -Force

function Format-Name([string]$Name) { '[' + $Name.Replace(']', ']]') + ']' }
function Format-Text([string]$Text) { "N'" + $Text.Replace("'", "''") + "'" }

function Invoke-Sql([string]$Text, [int]$TimeoutSec) {
    $Command = $Connection.CreateCommand()
    $Command.CommandText = $Text
    $Command.CommandTimeout = $TimeoutSec
    try { $Command.ExecuteScalar() } finally { $Command.Dispose() }
}

if (-not $Suffix) { $Suffix = New-AshlarSuffix -Word 'sql' }
$Array = Connect-Ashlar -Url $Url -TokenFile $TokenFile
# What would fail while writes are suspended fails here.
foreach ($Name in $Volume) {
    [void](Invoke-Ashlar -Array $Array -Method GET -Path "/volumes/$Name")
    if (Test-AshlarObject -Array $Array -Path "/snapshots/$Name.$Suffix") {
        throw "snapshot $Name.$Suffix exists: choose another suffix"
    }
}
$Names = ($Database | ForEach-Object { Format-Name $_ }) -join ', '
$Mode = if ($CopyOnly) { ', MODE = COPY_ONLY' } else { '' }
$Suspend = "ALTER SERVER CONFIGURATION SET SUSPEND_FOR_SNAPSHOT_BACKUP = ON (GROUP = ($Names)$Mode);"
$Resume = "ALTER SERVER CONFIGURATION SET SUSPEND_FOR_SNAPSHOT_BACKUP = OFF (GROUP = ($Names));"
$Backup = "BACKUP GROUP $Names TO DISK = $(Format-Text $MetadataFile) WITH METADATA_ONLY, FORMAT, MEDIADESCRIPTION = $(Format-Text "Ashlar snapshots .$Suffix");"
if (-not $PSCmdlet.ShouldProcess($Names, "suspend writes, and take snapshots of $($Volume -join ', ')")) { return }

# Pooling would keep the session, and with it the suspension, beyond the end of the connection.
$Connection = New-Object System.Data.SqlClient.SqlConnection "Server=$Instance;Integrated Security=true;Pooling=false;Connect Timeout=15"
$Key = [guid]::NewGuid().ToString()
$Order = @{ suffix = $Suffix; sources = @($Volume | ForEach-Object { @{ volume = $_ } }); labels = @{ consistency = 'unverified' } }
$Sent = $false
$Done = $false
try {
    $Connection.Open()
    if ([int](Invoke-Sql "SELECT CAST(SERVERPROPERTY('ProductMajorVersion') AS int)" 15) -lt 16) {
        throw "$Instance is older than SQL Server 2022, which has no snapshot backup by T-SQL"
    }
    [void](Invoke-Sql $Suspend 60)
    $Sent = $true
    $Taken = Invoke-Ashlar -Array $Array -Method POST -Path '/snapshots' -Body $Order -Key $Key -TimeoutSec ([math]::Max(1, [int]($LimitSec / 3)))
    # It records the backup and resumes writes, or fails if they were resumed before.
    [void](Invoke-Sql $Backup 60)
    $Done = $true
} finally {
    if (-not $Done -and $Connection.State -eq 'Open') {
        try { [void](Invoke-Sql $Resume 60) } catch { Write-Warning "resuming writes by ending the session: $($_.Exception.Message)" }
    }
    $Connection.Dispose()
    if ($Sent -and -not $Done) {
        # Sent again, it says what became of the first request. What there is then is no backup.
        try {
            [void](Invoke-Ashlar -Array $Array -Method POST -Path '/snapshots' -Body $Order -Key $Key)
            foreach ($Name in $Volume) { [void](Invoke-Ashlar -Array $Array -Method DELETE -Path "/snapshots/$Name.$Suffix") }
        } catch {
            # Refused by the array, the request took none.
            if (-not $_.Exception.Data['Kind']) { Write-Warning "snapshots with the suffix $Suffix may be left, and are no backup: $($_.Exception.Message)" }
        }
    }
}
foreach ($Snapshot in $Taken.items) {
    Invoke-Ashlar -Array $Array -Method PATCH -Path "/snapshots/$($Snapshot.id)" -Body @{ labels = @{ consistency = 'sql'; 'sql/metadata' = $MetadataFile } }
}
