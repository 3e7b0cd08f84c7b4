# The settings that Set-AshlarHost.ps1 makes and Test-AshlarHost.ps1 compares.

function Get-AshlarSetting {
    $Disk = 'HKLM:\SYSTEM\CurrentControlSet\Services\disk'
    @(
        # Multipathing claims disks of iSCSI by itself.
        @{
            Name = 'MPIO: claim iSCSI disks'; Recommended = $true
            Read = { (Get-MSDSMAutomaticClaimSettings)['iSCSI'] }
            Change = { [void](Enable-MSDSMAutomaticClaim -BusType iSCSI) }
        }
        # All portals of an array are equal.
        @{
            Name = 'MPIO: load balancing'; Recommended = 'RR'
            Read = { [string](Get-MSDSMGlobalDefaultLoadBalancePolicy) }
            Change = { param($Value) Set-MSDSMGlobalDefaultLoadBalancePolicy -Policy $Value }
        }
        # A path that came back is used again without I/O that finds it.
        @{
            Name = 'MPIO: path verification'; Recommended = 'Enabled'
            Read = { [string](Get-MPIOSetting).PathVerificationState }
            Change = { param($Value) Set-MPIOSetting -NewPathVerificationState $Value }
        }
        # A disk without paths stays this long, which is more than a takeover or a restart of the array takes.
        @{
            Name = 'MPIO: seconds until a disk without paths is removed'; Recommended = 120
            Read = { [int](Get-MPIOSetting).PDORemovePeriod }
            Change = { param($Value) Set-MPIOSetting -NewPDORemovePeriod $Value }
        }
        @{
            Name = 'disk: seconds until a command times out'; Recommended = 60
            Read = { [int](Get-ItemProperty -LiteralPath $Disk -Name TimeOutValue -ErrorAction SilentlyContinue).TimeOutValue }.GetNewClosure()
            Change = { param($Value) Set-ItemProperty -LiteralPath $Disk -Name TimeOutValue -Value $Value -Type DWord }.GetNewClosure()
        }
        # Space of deleted files is given back to the array.
        @{
            Name = 'NTFS: UNMAP of deleted files (0: on)'; Recommended = 0
            Read = { [int](Get-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control\FileSystem' -Name DisableDeleteNotification -ErrorAction SilentlyContinue).DisableDeleteNotification }
            Change = { param($Value) Set-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control\FileSystem' -Name DisableDeleteNotification -Value $Value -Type DWord }
        }
    )
}
