package cni

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"berth/structs"
	"berth/structs/validate/field"
)

// Settings are the operator's.
type Settings struct {
	// Path has the directories of the plugins, separated by colons.
	Path string `hcl:"cni_path"`
	// ConfigDir has the configurations of the networks whose mode is "cni/NAME".
	ConfigDir string `hcl:"cni_config_dir"`
	// BridgeName is the interface of the networks with mode bridge, and BridgeSubnet has their addresses.
	BridgeName    string `hcl:"bridge_network_name"`
	BridgeSubnet  string `hcl:"bridge_network_subnet"`
	BridgeHairpin bool   `hcl:"bridge_network_hairpin_mode"`
}

// DefaultSettings returns all settings. The plugins are where the project of the plugins, Debian
// and Fedora put them.
func DefaultSettings() Settings {
	return Settings{
		Path:         "/opt/cni/bin:/usr/lib/cni:/usr/libexec/cni",
		ConfigDir:    "/opt/cni/config",
		BridgeName:   "berth",
		BridgeSubnet: "172.26.64.0/20",
	}
}

func (c Settings) withDefaults() Settings {
	d := DefaultSettings()
	c.Path = cmp.Or(c.Path, d.Path)
	c.ConfigDir = cmp.Or(c.ConfigDir, d.ConfigDir)
	c.BridgeName = cmp.Or(c.BridgeName, d.BridgeName)
	c.BridgeSubnet = cmp.Or(c.BridgeSubnet, d.BridgeSubnet)
	return c
}

// maxInterface is the length of the longest name of an interface.
const maxInterface = 15

// smallest subnet of a bridge: it has the bridge's address and one of an allocation.
const maxPrefix = 30

// Faults returns every fault, each beginning with the setting's path.
func (c Settings) Faults() []error {
	c = c.withDefaults()
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, structs.Invalidf(format, args...))
		}
	}

	for _, dir := range c.paths() {
		require(filepath.IsAbs(dir), "client.cni_path: %q is not an absolute path", dir)
	}

	require(filepath.IsAbs(c.ConfigDir), "client.cni_config_dir: %q is not an absolute path", c.ConfigDir)
	name := c.BridgeName
	require(len(name) <= maxInterface && field.IsNetworkMode(structs.NetworkModeCNI+name),
		"client.bridge_network_name: %q must be 1 to %d letters, digits, dots, dashes and underscores",
		name, maxInterface)
	subnet, err := netip.ParsePrefix(c.BridgeSubnet)
	require(err == nil && subnet.Addr().Is4() && subnet.Bits() <= maxPrefix && subnet == subnet.Masked(),
		"client.bridge_network_subnet: %q is no IPv4 network such as 172.26.64.0/20", c.BridgeSubnet)
	return faults
}

func (c Settings) paths() []string { return filepath.SplitList(c.Path) }

// object is a JSON object.
type object = map[string]any

// bridgeList returns the configuration of the bridge. It has no plugin that makes rules of the packet filter
// for one allocation, except for its ports: see ensureRules.
func (c Settings) bridgeList() ([]byte, error) {
	return json.Marshal(object{
		"cniVersion": "0.4.0",
		"name":       c.BridgeName,
		"plugins": []object{
			{
				"type":      "bridge",
				"bridge":    c.BridgeName,
				"isGateway": true,
				// The bridge gets its new address when the subnet has changed.
				"forceAddress": true,
				"hairpinMode":  c.BridgeHairpin,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": c.BridgeSubnet}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{
				"type":         "portmap",
				"capabilities": object{"portMappings": true},
				"snat":         true,
			},
		},
	})
}

// bridgePlugins are the plugins that the bridge needs.
var bridgePlugins = []string{"bridge", "host-local", "portmap"}

// configuration returns the configuration of the network of a mode.
func (n *Networks) configuration(mode string) (*libcni.NetworkConfigList, error) {
	if mode == structs.NetworkModeBridge {
		b, err := n.cfg.bridgeList()
		if err != nil {
			return nil, err
		}
		return libcni.NetworkConfFromBytes(b)
	}

	name, ok := strings.CutPrefix(mode, structs.NetworkModeCNI)
	if !ok {
		return nil, structs.Internalf("mode %q has no network", mode)
	}

	lists, faults := n.configured()
	for _, list := range lists {
		if list.Name == name {
			return list, nil
		}
	}

	// Each of the files may be the one of the network.
	for _, fault := range faults {
		return nil, structs.Preconditionf("network %q has no valid configuration in %s: %w",
			name, n.cfg.ConfigDir, fault)
	}

	return nil, structs.Preconditionf("network %q has no configuration in %s", name, n.cfg.ConfigDir)
}

// The bounds of configurations.
const (
	maxNetworks   = 64
	maxConfigSize = 256 << 10
)

// configured returns the networks that the operator has configured, by name, and the faults of other files.
// Of two files with one network the first by its name counts.
func (n *Networks) configured() (lists []*libcni.NetworkConfigList, faults []error) {
	// A node need not have the directory.
	if isMissing(n.cfg.ConfigDir) {
		return nil, nil
	}

	files, err := libcni.ConfFiles(n.cfg.ConfigDir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, []error{err}
	}

	slices.Sort(files)
	byName := map[string]bool{}
	for _, file := range files {
		list, err := readList(file)
		switch {
		case err != nil:
		case !field.IsNetworkMode(structs.NetworkModeCNI + list.Name):
			err = fmt.Errorf("the name %q must be 1 to 64 letters, digits, dots, dashes and underscores",
				structs.Cut(list.Name, structs.MaxQuoted))
		case list.Name == n.cfg.BridgeName:
			err = fmt.Errorf("the name %q is that of the bridge of this node", list.Name)
		case byName[list.Name]:
			err = fmt.Errorf("another file has the network %q", list.Name)
		case len(lists) == maxNetworks:
			err = fmt.Errorf("more than %d networks", maxNetworks)
		default:
			byName[list.Name] = true
			lists = append(lists, list)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
		}
	}

	return lists, faults
}

// readList reads one file: a list of plugins, or one plugin.
func readList(file string) (*libcni.NetworkConfigList, error) {
	// A file may be too large to be read.
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}

	if info.Size() > maxConfigSize {
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", info.Size(), maxConfigSize)
	}

	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	if filepath.Ext(file) == ".conflist" {
		return libcni.NetworkConfFromBytes(b)
	}

	plugin, err := libcni.NetworkPluginConfFromBytes(b)
	if err != nil {
		return nil, err
	}

	return libcni.ConfListFromConf(plugin) //nolint:staticcheck // nodes have files of this older form
}
