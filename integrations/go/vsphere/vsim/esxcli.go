package vsim

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"ashlar/integrations/vsphere/practice"
)

// executer is a host's esxcli as vCenter passes it on.
type executer struct {
	types.ManagedObjectReference
	h *Host
}

// call is a request to the executer. Its type belongs to the library alone, so it is read field by field.
type call struct {
	method    string
	arguments esx.Values
}

func fields(request any) call {
	value := reflect.Indirect(reflect.ValueOf(request))
	made := call{method: value.FieldByName("Method").String(), arguments: esx.Values{}}
	arguments := value.FieldByName("Argument")
	for at := range arguments.Len() {
		argument := arguments.Index(at)
		name := argument.FieldByName("Name").String()
		decoder := xml.NewDecoder(strings.NewReader("<v>" + argument.FieldByName("Val").String() + "</v>"))
		var decoded struct {
			Values []string `xml:",any"`
		}
		if decoder.Decode(&decoded) == nil {
			made.arguments[name] = decoded.Values
		}
	}
	return made
}

// command is one of esxcli's: its parameters as names with their options, and what it does.
type command struct {
	parameters map[string]string
	run        func(*Host, esx.Values) ([]esx.Values, error)
	changes    bool
}

func writes(method string) bool { return commands[strings.TrimPrefix(method, prefix)].changes }

const prefix = "vim.EsxCLI."

// ExecuteSoapBody and ExecuteSoapResponse have the names of the library's own, which go over the wire.
type ExecuteSoapBody struct {
	Res    *ExecuteSoapResponse `xml:"urn:vim25 ExecuteSoapResponse"`
	Fault_ *soap.Fault
}

// Fault is part of soap.HasFault.
func (b *ExecuteSoapBody) Fault() *soap.Fault { return b.Fault_ }

// ExecuteSoapResponse is the response to a command.
type ExecuteSoapResponse struct {
	Returnval result `xml:"urn:vim25 returnval"`
}

type result struct {
	Response string `xml:"response,omitempty"`
	Fault    *fault `xml:"fault,omitempty"`
}

type fault struct {
	Message string `xml:"faultMsg"`
	Detail  string `xml:"faultDetail,omitempty"`
}

// ExecuteSoap runs a command, or describes its parameters.
func (e *executer) ExecuteSoap(_ *simulator.Context, request any) soap.HasFault {
	asked := fields(request)
	if strings.HasSuffix(asked.method, "FetchCLIInfo") {
		return respond(information(strings.TrimPrefix(asked.arguments.Value("typeName"), prefix)))
	}
	known, has := commands[strings.TrimPrefix(asked.method, prefix)]
	if !has {
		return failed("unknown command " + asked.method)
	}
	for name := range asked.arguments {
		if _, has := known.parameters[name]; !has {
			return failed("unknown parameter " + name)
		}
	}
	rows, err := known.run(e.h, asked.arguments)
	if err != nil {
		return failed(err.Error())
	}
	kind := strings.ReplaceAll(strings.ToUpper(asked.method[:1])+asked.method[1:], ".", "") + "Row"
	return respond(&esx.Response{Kind: kind, Values: rows})
}

func respond(object any) soap.HasFault {
	var out bytes.Buffer
	if err := xml.NewEncoder(&out).Encode(object); err != nil {
		return failed(err.Error())
	}
	return &ExecuteSoapBody{Res: &ExecuteSoapResponse{Returnval: result{Response: out.String()}}}
}

func failed(text string) soap.HasFault {
	var detail bytes.Buffer
	detail.WriteString("<obj><fault><errMsg>")
	_ = xml.EscapeText(&detail, []byte(text))
	detail.WriteString("</errMsg></fault></obj>")
	return &ExecuteSoapBody{Res: &ExecuteSoapResponse{Returnval: result{
		Fault: &fault{Message: "EsxCLI.CLIFault.summary", Detail: detail.String()}}}}
}

// information describes the commands of a name space, from which clients know the parameters.
func information(space string) *esx.CommandInfo {
	made := &esx.CommandInfo{CommandInfoItem: esx.CommandInfoItem{Name: space}}
	for name, known := range commands {
		at := strings.LastIndex(name, ".")
		if name[:at] != space {
			continue
		}
		method := esx.CommandInfoMethod{CommandInfoItem: esx.CommandInfoItem{Name: name[at+1:]}}
		for parameter, option := range known.parameters {
			method.Param = append(method.Param, esx.CommandInfoParam{CommandInfoItem: esx.CommandInfoItem{Name: parameter},
				Aliases: strings.Fields(option)})
		}
		made.Method = append(made.Method, method)
	}
	return made
}

func row(pairs ...string) esx.Values {
	made := esx.Values{}
	for at := 0; at < len(pairs); at += 2 {
		made[pairs[at]] = []string{pairs[at+1]}
	}
	return made
}

func (h *Host) satpArguments(arguments esx.Values) Rule {
	return Rule{SATP: arguments.Value("satp"), Vendor: arguments.Value("vendor"), Model: arguments.Value("model"),
		PSP: arguments.Value("psp"), Options: arguments.Value("pspoption")}
}

func (h *Host) named(arguments esx.Values) (*Device, error) {
	name := arguments.Value("device")
	if device := h.device(name); device != nil {
		return device, nil
	}
	return nil, fmt.Errorf("Unable to find device with name %s", name)
}

var satpParameters = map[string]string{"satp": "-s --satp", "vendor": "-V --vendor", "model": "-M --model", "psp": "-P --psp",
	"pspoption": "-O --psp-option", "description": "-e --description"}

var classParameter = map[string]string{"claimruleclass": "-c --claimrule-class"}

// commands are those of esxcli that the simulator has, by name space and name.
var commands = map[string]command{
	"storage.nmp.satp.rule.list": {map[string]string{"satp": "-s --satp"}, listRules, false},
	"storage.nmp.satp.rule.add":  {satpParameters, addRule, true},
	"storage.nmp.satp.rule.remove": {satpParameters, func(h *Host, arguments esx.Values) ([]esx.Values, error) {
		at := h.satpRule(h.satpArguments(arguments))
		if at < 0 {
			return nil, fmt.Errorf("Error deleting SATP user rule: no such rule")
		}
		h.Rules = slices.Delete(h.Rules, at, at+1)
		return nil, nil
	}, true},
	"storage.core.claimrule.list": {classParameter, listClaims, false},
	"storage.core.claimrule.add": {map[string]string{"claimruleclass": "-c --claimrule-class", "rule": "-r --rule", "type": "-t --type",
		"vendor": "-V --vendor", "model": "-M --model", "plugin": "-P --plugin", "xcopyusearrayvalues": "-a --xcopy-use-array-values",
		"xcopymaxtransfersizekib": "-k --xcopy-max-transfer-size-kib"}, addClaim, true},
	"storage.core.claimrule.remove": {map[string]string{"claimruleclass": "-c --claimrule-class", "rule": "-r --rule"}, removeClaim, true},
	"storage.core.claimrule.load": {classParameter, func(h *Host, _ esx.Values) ([]esx.Values, error) {
		for at := range h.Claims {
			h.Claims[at].Loaded = true
		}
		return nil, nil
	}, true},
	"storage.core.device.list": {map[string]string{"device": "-d --device"}, listDevices, false},
	"storage.core.device.set": {map[string]string{"device": "-d --device", "schednumreqoutstanding": "-O --sched-num-req-outstanding"},
		setDevice, true},
	"storage.core.device.vaai.status.get":         {map[string]string{"device": "-d --device"}, listOffload, false},
	"storage.nmp.psp.roundrobin.deviceconfig.get": {map[string]string{"device": "-d --device"}, getSwitch, false},
	"storage.nmp.psp.roundrobin.deviceconfig.set": {map[string]string{"device": "-d --device", "type": "-t --type", "iops": "-I --iops"},
		setSwitch, true},
	"system.module.parameters.list": {map[string]string{"module": "-m --module"}, listParameters, false},
	"system.module.parameters.set": {map[string]string{"module": "-m --module", "parameterstring": "-p --parameter-string"},
		setParameters, true},
	"system.settings.advanced.set": {map[string]string{"option": "-o --option", "intvalue": "-i --int-value"}, setAdvanced, true},
	"iscsi.software.set": {map[string]string{"enabled": "-e --enabled"}, func(h *Host, arguments esx.Values) ([]esx.Values, error) {
		h.EnableISCSI(arguments.Value("enabled") == "true")
		return nil, nil
	}, true},
	"iscsi.adapter.list": {nil, func(h *Host, _ esx.Values) ([]esx.Values, error) {
		if h.ISCSI == nil {
			return nil, nil
		}
		return []esx.Values{row("Adapter", h.ISCSI.Device, "Driver", "iscsi_vmk", "State", "online", "UID", h.Initiator())}, nil
	}, false},
	"iscsi.adapter.param.set":                {map[string]string{"adapter": "-A --adapter", "key": "-k --key", "value": "-v --value"}, setISCSIParameter, true},
	"iscsi.adapter.discovery.sendtarget.add": {map[string]string{"adapter": "-A --adapter", "address": "-a --address"}, addSendTarget, true},
	"iscsi.adapter.discovery.sendtarget.list": {map[string]string{"adapter": "-A --adapter"}, func(h *Host, _ esx.Values) ([]esx.Values, error) {
		var rows []esx.Values
		if h.ISCSI != nil {
			for _, target := range h.ISCSI.ConfiguredSendTarget {
				rows = append(rows, row("Sendtarget", fmt.Sprintf("%s:%d", target.Address, target.Port)))
			}
		}
		return rows, nil
	}, false},
	"storage.vmfs.unmap": {map[string]string{"volumelabel": "-l --volume-label", "reclaimunit": "-n --reclaim-unit"}, unmapVmfs, true},
	"storage.core.adapter.rescan": {map[string]string{"all": "-a --all"}, func(h *Host, _ esx.Values) ([]esx.Values, error) {
		h.rescan()
		return nil, nil
	}, true},
	"storage.nmp.device.set": {map[string]string{"device": "-d --device", "psp": "-P --psp"}, func(h *Host, arguments esx.Values) ([]esx.Values, error) {
		device, err := h.named(arguments)
		if err == nil {
			device.PSP = arguments.Value("psp")
			h.publish()
		}
		return nil, err
	}, true},
}

func listRules(h *Host, _ esx.Values) ([]esx.Values, error) {
	// A rule of the system, as every host has many.
	rows := []esx.Values{row("Name", "VMW_SATP_ALUA", "Vendor", "OTHER", "Model", "ARRAY", "DefaultPSP", "VMW_PSP_MRU", "PSPOptions", "", "RuleGroup", "system")}
	for _, rule := range h.Rules {
		rows = append(rows, row("Name", rule.SATP, "Vendor", rule.Vendor, "Model", rule.Model, "DefaultPSP", rule.PSP,
			"PSPOptions", rule.Options, "RuleGroup", "user"))
	}
	return rows, nil
}

func addRule(h *Host, arguments esx.Values) ([]esx.Values, error) {
	made := h.satpArguments(arguments)
	if made.SATP == "" {
		return nil, fmt.Errorf("Error: Missing required parameter -s|--satp")
	}
	if h.satpRule(made) >= 0 {
		return nil, fmt.Errorf("Error adding SATP user rule: Duplicate user rule found for SATP %s matching vendor %s model %s", made.SATP, made.Vendor, made.Model)
	}
	h.Rules = append(h.Rules, made)
	return nil, nil
}

func listClaims(h *Host, arguments esx.Values) ([]esx.Values, error) {
	if arguments.Value("claimruleclass") != "VAAI" {
		return nil, fmt.Errorf("only the class VAAI is simulated")
	}
	var rows []esx.Values
	for _, claim := range h.Claims {
		for class, has := range map[string]bool{"file": true, "runtime": claim.Loaded} {
			if has {
				rows = append(rows, row("RuleClass", "VAAI", "Rule", claim.Number, "Class", class, "Type", "vendor", "Plugin", claim.Plugin,
					"Matches", "vendor="+claim.Vendor+" model=*", "XCOPYUseArrayReportedValues", claim.ArrayValues,
					"XCOPYUseMultipleSegments", "false", "XCOPYMaxTransferSizeKiB", claim.KiB))
			}
		}
	}
	return rows, nil
}

func addClaim(h *Host, arguments esx.Values) ([]esx.Values, error) {
	made := Claim{Number: arguments.Value("rule"), Vendor: arguments.Value("vendor"), Plugin: arguments.Value("plugin"),
		ArrayValues: arguments.Value("xcopyusearrayvalues"), KiB: arguments.Value("xcopymaxtransfersizekib")}
	if slices.ContainsFunc(h.Claims, func(claim Claim) bool { return claim.Number == made.Number }) {
		return nil, fmt.Errorf("Duplicate rule id %s", made.Number)
	}
	h.Claims = append(h.Claims, made)
	return nil, nil
}

func removeClaim(h *Host, arguments esx.Values) ([]esx.Values, error) {
	before := len(h.Claims)
	h.Claims = slices.DeleteFunc(h.Claims, func(claim Claim) bool { return claim.Number == arguments.Value("rule") })
	if len(h.Claims) == before {
		return nil, fmt.Errorf("no rule %s", arguments.Value("rule"))
	}
	return nil, nil
}

func (h *Host) wanted(arguments esx.Values, show func(*Device) esx.Values) ([]esx.Values, error) {
	var rows []esx.Values
	for _, device := range h.Devices {
		if name := arguments.Value("device"); name == "" || name == device.Name {
			rows = append(rows, show(device))
		}
	}
	return rows, nil
}

func listDevices(h *Host, arguments esx.Values) ([]esx.Values, error) {
	return h.wanted(arguments, func(device *Device) esx.Values {
		return row("Device", device.Name, "Vendor", practice.Vendor, "Model", practice.Product, "DeviceMaxQueueDepth", "128",
			"NoofoutstandingIOswithcompetingworlds", strconv.Itoa(device.Outstanding))
	})
}

func listOffload(h *Host, arguments esx.Values) ([]esx.Values, error) {
	return h.wanted(arguments, func(device *Device) esx.Values {
		return row("Device", device.Name, "ATSStatus", "supported", "CloneStatus", device.Offload, "ZeroStatus", "supported",
			"DeleteStatus", "supported", "VAAIPluginName", practice.VAAIPlugin)
	})
}

func setDevice(h *Host, arguments esx.Values) ([]esx.Values, error) {
	device, err := h.named(arguments)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(arguments.Value("schednumreqoutstanding"))
	if err != nil || number < 1 || number > 256 {
		return nil, fmt.Errorf("Invalid value for sched-num-req-outstanding")
	}
	device.Outstanding = number
	return nil, nil
}

func getSwitch(h *Host, arguments esx.Values) ([]esx.Values, error) {
	device, err := h.named(arguments)
	if err == nil && device.PSP != practice.RoundRobin {
		err = fmt.Errorf("Device %s Does not use the Round Robin path selection policy", device.Name)
	}
	if err != nil {
		return nil, err
	}
	return []esx.Values{row("Device", device.Name, "LimitType", "Iops", "IOOperationLimit", strconv.Itoa(device.Switch))}, nil
}

func setSwitch(h *Host, arguments esx.Values) ([]esx.Values, error) {
	if _, err := getSwitch(h, arguments); err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(arguments.Value("iops"))
	if err != nil || arguments.Value("type") != "iops" {
		return nil, fmt.Errorf("Invalid path switch")
	}
	h.device(arguments.Value("device")).Switch = number
	return nil, nil
}

// parameters that the simulated drivers have.
var parameters = map[string][]string{"lpfc": {"lpfc_log_verbose", "lpfc_lun_queue_depth"},
	"qlnativefc": {"ql2xmaxqdepth", "ql2xoperationmode", "ql2xintrdelaytimer"}}

func listParameters(h *Host, arguments esx.Values) ([]esx.Values, error) {
	module := arguments.Value("module")
	text, has := h.Modules[module]
	if !has {
		return nil, fmt.Errorf("Unknown module %s", module)
	}
	set := map[string]string{}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		set[name] = value
	}
	var rows []esx.Values
	for _, name := range parameters[module] {
		rows = append(rows, row("Name", name, "Type", "int", "Value", set[name], "Description", "of "+module))
	}
	return rows, nil
}

func setParameters(h *Host, arguments esx.Values) ([]esx.Values, error) {
	module := arguments.Value("module")
	if _, has := h.Modules[module]; !has {
		return nil, fmt.Errorf("Unknown module %s", module)
	}
	for _, word := range strings.Fields(arguments.Value("parameterstring")) {
		name, _, _ := strings.Cut(word, "=")
		if !slices.Contains(parameters[module], name) {
			return nil, fmt.Errorf("Invalid parameter %s of %s", name, module)
		}
	}
	h.Modules[module] = arguments.Value("parameterstring")
	return nil, nil
}

func setAdvanced(h *Host, arguments esx.Values) ([]esx.Values, error) {
	key := strings.ReplaceAll(strings.TrimPrefix(arguments.Value("option"), "/"), "/", ".")
	number, err := strconv.ParseInt(arguments.Value("intvalue"), 10, 64)
	if _, has := h.Options[key]; !has || err != nil {
		return nil, fmt.Errorf("Unable to find option %s", key)
	}
	h.Options[key] = number
	return nil, nil
}

func setISCSIParameter(h *Host, arguments esx.Values) ([]esx.Values, error) {
	text := arguments.Value("value")
	var value any = text == "true"
	if number, err := strconv.ParseInt(text, 10, 32); err == nil {
		value = int32(number)
	}
	if h.ISCSI == nil || h.ISCSI.Device != arguments.Value("adapter") || !h.setISCSI(arguments.Value("key"), value) {
		return nil, fmt.Errorf("no such adapter or parameter")
	}
	h.publish()
	return nil, nil
}

func addSendTarget(h *Host, arguments esx.Values) ([]esx.Values, error) {
	host, port, found := strings.Cut(arguments.Value("address"), ":")
	number, err := strconv.ParseInt(port, 10, 32)
	if h.ISCSI == nil || !found || err != nil {
		return nil, fmt.Errorf("no adapter, or the address has no port")
	}
	h.ISCSI.ConfiguredSendTarget = append(h.ISCSI.ConfiguredSendTarget, types.HostInternetScsiHbaSendTarget{Address: host, Port: int32(number)})
	h.publish()
	return nil, nil
}
