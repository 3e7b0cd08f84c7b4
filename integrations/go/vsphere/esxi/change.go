package esxi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
)

// Change is what `apply` needs besides the table.
type Change struct {
	practice.Want
	// CHAPSecret of the host; needed where the CHAP user deviates.
	CHAPSecret string
}

// Apply changes one setting as a finding says.
func (h *Host) Apply(ctx context.Context, finding practice.Finding, state practice.State, with Change) error {
	setting, known := practice.Find(finding.Setting)
	if !known || !setting.Changeable() {
		return fmt.Errorf("%s can't be changed by this program", finding.Setting)
	}
	switch setting.Kind {
	case practice.Option:
		return h.setOption(ctx, setting)
	case practice.SATPRule:
		return h.setSATPRule(ctx, state)
	case practice.VAAIRule:
		return h.setVAAIRule(ctx, state)
	case practice.PathPolicy:
		return h.setPolicy(ctx, finding.Object)
	case practice.PathSwitch:
		_, err := h.esxcli(ctx, "storage nmp psp roundrobin deviceconfig set", "--device="+finding.Object, "--type=iops",
			"--iops="+setting.Recommended)
		return err
	case practice.Outstanding:
		_, err := h.esxcli(ctx, "storage core device set", "--device="+finding.Object,
			"--sched-num-req-outstanding="+setting.Recommended)
		return err
	case practice.Module:
		return h.setModule(ctx, setting, state)
	case practice.Software:
		return h.enableISCSI(ctx)
	case practice.Discovery:
		return h.discover(ctx, with.Portals)
	case practice.CHAP:
		return h.authenticate(ctx, with)
	case practice.ISCSI:
		return h.setISCSIOption(ctx, setting)
	}
	return fmt.Errorf("%s can't be changed by this program", finding.Setting)
}

// setOption writes a whole number with the type that vSphere keeps it in, which it insists on.
func (h *Host) setOption(ctx context.Context, setting practice.Setting) error {
	number, err := strconv.ParseInt(setting.Recommended, 10, 64)
	if err != nil {
		return err
	}
	err = h.options().Update(ctx, []types.BaseOptionValue{&types.OptionValue{Key: setting.Key, Value: number}})
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: option %s: %w", h.Name, setting.Key, err))
	}
	return nil
}

// setSATPRule replaces rules of the same vendor that say something else: the first that matches would win.
func (h *Host) setSATPRule(ctx context.Context, state practice.State) error {
	for _, rule := range state.SATPRules {
		if !rule.Ours() || rule.Right() {
			continue
		}
		options := []string{"--satp=" + rule.SATP, "--vendor=" + rule.Vendor}
		for name, value := range map[string]string{"--model=": rule.Model, "--psp=": rule.PSP, "--psp-option=": rule.PSPOptions} {
			if value != "" {
				options = append(options, name+value)
			}
		}
		if _, err := h.esxcli(ctx, "storage nmp satp rule remove", options...); err != nil {
			return err
		}
	}
	_, err := h.esxcli(ctx, "storage nmp satp rule add", practice.SATPRuleOptions()...)
	return err
}

func (h *Host) setVAAIRule(ctx context.Context, state practice.State) error {
	number := practice.VAAIRuleNumber
	taken := map[string]bool{}
	for _, rule := range state.VAAIRules {
		if rule.Ours() {
			if _, err := h.esxcli(ctx, "storage core claimrule remove", "--claimrule-class=VAAI", "--rule="+rule.Number); err != nil {
				return err
			}
			continue
		}
		taken[rule.Number] = true
	}
	for taken[strconv.Itoa(number)] {
		number++
	}
	if _, err := h.esxcli(ctx, "storage core claimrule add", practice.VAAIRuleOptions(number)...); err != nil {
		return err
	}
	_, err := h.esxcli(ctx, "storage core claimrule load", "--claimrule-class=VAAI")
	return err
}

func (h *Host) setPolicy(ctx context.Context, device string) error {
	for _, disk := range h.Disks() {
		if disk.CanonicalName != device {
			continue
		}
		unit := h.multipath(disk.Key)
		if unit == nil {
			break
		}
		_, err := methods.SetMultipathLunPolicy(ctx, h.client, &types.SetMultipathLunPolicy{
			This: *h.ConfigManager.StorageSystem, LunId: unit.Id,
			Policy: &types.HostMultipathInfoLogicalUnitPolicy{Policy: practice.RoundRobin},
		})
		if err != nil {
			return vcenter.Explain(fmt.Errorf("%s: path policy of %s: %w", h.Name, device, err))
		}
		return nil
	}
	return fmt.Errorf("%s does not see %s any more: rescan it", h.Name, device)
}

// setModule keeps the other parameters of the driver: esxcli replaces the whole text.
func (h *Host) setModule(ctx context.Context, setting practice.Setting, state practice.State) error {
	words := []string{setting.Key + "=" + setting.Recommended}
	for name, value := range state.Modules[setting.Driver] {
		if name != setting.Key && value != "" {
			words = append(words, name+"="+value)
		}
	}
	_, err := h.esxcli(ctx, "system module parameters set", "--module="+setting.Driver, "--parameter-string="+strings.Join(words, " "))
	return err
}

func (h *Host) enableISCSI(ctx context.Context) error {
	_, err := methods.UpdateSoftwareInternetScsiEnabled(ctx, h.client, &types.UpdateSoftwareInternetScsiEnabled{
		This: *h.ConfigManager.StorageSystem, Enabled: true,
	})
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: software iSCSI: %w", h.Name, err))
	}
	return h.Refresh(ctx)
}

func (h *Host) adapter() (*types.HostInternetScsiHba, error) {
	if adapter := h.softwareAdapter(); adapter != nil {
		return adapter, nil
	}
	return nil, fmt.Errorf("%s has no software iSCSI adapter: change iscsi-software first", h.Name)
}

func (h *Host) discover(ctx context.Context, portals []string) error {
	adapter, err := h.adapter()
	if err != nil {
		return err
	}
	current := practice.Adapter{}
	for _, target := range adapter.ConfiguredSendTarget {
		current.SendTargets = append(current.SendTargets, portal(target))
	}
	var targets []types.HostInternetScsiHbaSendTarget
	for _, missing := range practice.MissingPortals(current, portals) {
		address, port, err := net.SplitHostPort(missing)
		if err != nil {
			return fmt.Errorf("%q is no portal: write ADDRESS:PORT", missing)
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is no portal: write ADDRESS:PORT", missing)
		}
		targets = append(targets, types.HostInternetScsiHbaSendTarget{Address: address, Port: int32(number)})
	}
	_, err = methods.AddInternetScsiSendTargets(ctx, h.client, &types.AddInternetScsiSendTargets{
		This: *h.ConfigManager.StorageSystem, IScsiHbaDevice: adapter.Device, Targets: targets,
	})
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: dynamic discovery: %w", h.Name, err))
	}
	return h.Refresh(ctx)
}

func (h *Host) authenticate(ctx context.Context, with Change) error {
	adapter, err := h.adapter()
	if err != nil {
		return err
	}
	if with.CHAPSecret == "" {
		return errors.New("the CHAP secret is not given: --chap-secret-file")
	}
	_, err = methods.UpdateInternetScsiAuthenticationProperties(ctx, h.client, &types.UpdateInternetScsiAuthenticationProperties{
		This: *h.ConfigManager.StorageSystem, IScsiHbaDevice: adapter.Device,
		AuthenticationProperties: types.HostInternetScsiHbaAuthenticationProperties{
			ChapAuthEnabled: true, ChapName: with.CHAPUser, ChapSecret: with.CHAPSecret,
			ChapAuthenticationType: string(types.HostInternetScsiHbaChapAuthenticationTypeChapRequired),
		},
	})
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: CHAP: %w", h.Name, err))
	}
	return nil
}

func (h *Host) setISCSIOption(ctx context.Context, setting practice.Setting) error {
	adapter, err := h.adapter()
	if err != nil {
		return err
	}
	var value any = setting.Recommended == "true"
	if number, err := strconv.ParseInt(setting.Recommended, 10, 32); err == nil {
		value = int32(number)
	}
	_, err = methods.UpdateInternetScsiAdvancedOptions(ctx, h.client, &types.UpdateInternetScsiAdvancedOptions{
		This: *h.ConfigManager.StorageSystem, IScsiHbaDevice: adapter.Device,
		Options: []types.HostInternetScsiHbaParamValue{{OptionValue: types.OptionValue{Key: setting.Key, Value: value}}},
	})
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: iSCSI option %s: %w", h.Name, setting.Key, err))
	}
	return nil
}
