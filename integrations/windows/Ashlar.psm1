# Requests to the management API of an array, for Windows PowerShell 5.1 and PowerShell 7.
Set-StrictMode -Version Latest

$script:Attempts = 3

<#
.SYNOPSIS
Prepares access to an array. Nothing is sent.
.PARAMETER Url
Address of the API, such as https://10.0.0.1:8080. Windows must trust its certificate: import tls.pem of the array's data
folder with Import-Certificate into Cert:\LocalMachine\Root.
.PARAMETER TokenFile
File with an API token of an operator (ashlar token create NAME --role operator). Only the account that runs the script should
be able to read it.
#>
function Connect-Ashlar {
    [CmdletBinding()]
    param(
        [Parameter(Mandatory)][string]$Url,
        [Parameter(Mandatory)][string]$TokenFile
    )
    $Token = (Get-Content -LiteralPath $TokenFile -Raw -ErrorAction Stop).Trim()
    if (-not $Token) { throw "$TokenFile has no API token: create one with 'ashlar token create NAME --role operator'" }
    # Windows PowerShell does not offer TLS 1.2 everywhere.
    [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
    [pscustomobject]@{ Url = $Url.TrimEnd('/') + '/api/v1'; Token = $Token }
}

<#
.SYNOPSIS
Sends one request and returns the object of the response. A change whose connection failed is repeated with the same
Idempotency-Key: the array carries it out once.
#>
function Invoke-Ashlar {
    [CmdletBinding()]
    param(
        [Parameter(Mandatory)]$Array,
        [Parameter(Mandatory)][ValidateSet('GET', 'POST', 'PATCH', 'DELETE')][string]$Method,
        [Parameter(Mandatory)][string]$Path,
        [hashtable]$Body,
        [string]$Key = [guid]::NewGuid().ToString(),
        [int]$TimeoutSec = 30
    )
    $Request = @{
        Method = $Method; Uri = $Array.Url + $Path; TimeoutSec = $TimeoutSec; UseBasicParsing = $true
        Headers = @{ Authorization = "Bearer $($Array.Token)"; 'Idempotency-Key' = $Key }
    }
    if ($Body) {
        $Request.ContentType = 'application/json; charset=utf-8'
        $Request.Body = [Text.Encoding]::UTF8.GetBytes((ConvertTo-Json $Body -Depth 8 -Compress))
    }
    for ($Attempt = 1; ; $Attempt++) {
        try {
            return Invoke-RestMethod @Request -ErrorAction Stop
        } catch {
            $Problem = $null
            if ($_.ErrorDetails -and $_.ErrorDetails.Message) {
                try { $Problem = ConvertFrom-Json $_.ErrorDetails.Message } catch { $Problem = $null }
            }
            if ($Problem -and $Problem.PSObject.Properties['kind']) {
                $Failure = New-Object InvalidOperationException "the array refuses $Method $Path`: $($Problem.detail)"
                $Failure.Data['Kind'] = $Problem.kind
                throw $Failure
            }
            if ($Attempt -ge $script:Attempts) {
                throw "the array at $($Array.Url) can't be reached: $($_.Exception.Message)"
            }
            Start-Sleep -Milliseconds (200 * $Attempt)
        }
    }
}

<#
.SYNOPSIS
True if something exists on the array.
#>
function Test-AshlarObject {
    [CmdletBinding()]
    param([Parameter(Mandatory)]$Array, [Parameter(Mandatory)][string]$Path)
    try {
        [void](Invoke-Ashlar -Array $Array -Method GET -Path $Path)
        return $true
    } catch {
        if ($_.Exception.Data['Kind'] -eq 'not_found') { return $false }
        throw
    }
}

<#
.SYNOPSIS
A suffix for names of snapshots that begins with a word and has the time in UTC.
#>
function New-AshlarSuffix {
    [CmdletBinding()]
    param([Parameter(Mandatory)][string]$Word)
    $Word + '-' + [DateTime]::UtcNow.ToString('yyyyMMddTHHmmssZ')
}

Export-ModuleMember -Function @('Connect-Ashlar', 'Invoke-Ashlar', 'Test-AshlarObject', 'New-AshlarSuffix')
