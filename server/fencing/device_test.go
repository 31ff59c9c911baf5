package fencing

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestDevice_ValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("pin.o%d", i)] = "x"
	}
	long := strings.Repeat("x", structs.MaxText+1)
	for name, c := range map[string]struct {
		edit func(d *Device)
		want string
	}{
		"a good one": {func(*Device) {}, ""},
		"a path":     {func(d *Device) { d.Agent = "/opt/fence_x" }, ""},
		"storage": {func(d *Device) {
			d.Scope = ScopeStorage
			d.Plugins = []string{"san"}
			d.Volumes = []string{"default/db"}
		}, ""},
		"references": {func(d *Device) {
			d.Plug, d.Options = "vm-${ pin.id }-${node.unique.name}", map[string]string{"ip": "${pin.bmc-1}"}
		}, ""},
		"matches": {func(d *Device) {
			d.Match = map[string]string{"pin.rack": "r1", "node.unique.name": "n", "node.unique.id": "i"}
		}, ""},

		"no name":        {func(d *Device) { d.Name = "" }, `"": the name must be of letters`},
		"a slash":        {func(d *Device) { d.Name = "a/b" }, `the name must be of letters`},
		"a long name":    {func(d *Device) { d.Name = strings.Repeat("n", 65) }, `at most 64`},
		"no agent":       {func(d *Device) { d.Agent = "" }, `agent "" must be the name of a program`},
		"a relative one": {func(d *Device) { d.Agent = "./fence_x" }, `agent "./fence_x" must be`},
		"below":          {func(d *Device) { d.Agent = "x/fence_x" }, `agent "x/fence_x" must be`},
		"a directory":    {func(d *Device) { d.Agent = ".." }, `agent ".." must be`},
		"a NUL":          {func(d *Device) { d.Agent = "/a\x00" }, `agent "/a\x00" must be`},
		"a long path":    {func(d *Device) { d.Agent = "/" + long }, "agent has 4098 bytes"},

		"action":   {func(d *Device) { d.Options = map[string]string{"action": "on"} }, `options: "action" is set by berth`},
		"option":   {func(d *Device) { d.Options = map[string]string{"option": "on"} }, `options: "option" is set`},
		"plug":     {func(d *Device) { d.Options = map[string]string{"plug": "1"} }, `options: "plug" is set`},
		"port":     {func(d *Device) { d.Options = map[string]string{"Port": "1"} }, `options: "Port" is set`},
		"nodename": {func(d *Device) { d.SecretFiles = map[string]string{"nodename": "/x"} }, `secret_files: "nodename"`},
		"equals":   {func(d *Device) { d.Options = map[string]string{"a=b": "1"} }, `options: the name "a=b" must be of`},
		"an empty": {func(d *Device) { d.Options = map[string]string{"": "1"} }, `options: the name "" must be of`},
		"a newline": {func(d *Device) { d.Options = map[string]string{"a": "1\naction=on"} },
			"options: a must be text without line ends"},
		"a long value": {func(d *Device) { d.Options = map[string]string{"a": long} }, "options: a has 4097 bytes"},
		"a long option": {func(d *Device) { d.Options = map[string]string{strings.Repeat("o", 65): "1"} },
			"options: the name"},
		"many options": {func(d *Device) { d.Options, d.Match = many, nil },
			"65 options, with those in secret_files; at most 64"},
		"twice": {func(d *Device) {
			d.Options, d.SecretFiles = map[string]string{"access-key": "1"}, map[string]string{"access_key": "/x"}
		}, `secret_files: "access_key" is there twice`},
		"a password": {func(d *Device) { d.Options = map[string]string{"password": "hunter2"} },
			`options: "password" is a secret: write it to a file`},
		"an old name": {func(d *Device) { d.Options = map[string]string{"Snmp-Priv-Passwd": "hunter2"} },
			`options: "Snmp-Priv-Passwd" is a secret`},
		"a secret key": {func(d *Device) { d.Options = map[string]string{"secret_key": "hunter2"} }, `"secret_key" is a secret`},
		"a token":      {func(d *Device) { d.Options = map[string]string{"apitoken": "hunter2"} }, `"apitoken" is a secret`},
		"a key of IPMI": {func(d *Device) { d.Options = map[string]string{"hexadecimal-kg": "68756e746572"} },
			`"hexadecimal-kg" is a secret`},
		"a password in a URL": {func(d *Device) {
			d.Options = map[string]string{"proxy": "http://fence:hunter2@${pin.proxy}:3128"}
		}, `"proxy" is a secret`},
		"no password in a URL": {func(d *Device) {
			d.Options = map[string]string{"proxy": "http://proxy:3128/a:b@c", "target": "ssh://fence@bmc:22"}
		}, ""},
		"a path of a secret": {func(d *Device) {
			d.Options = map[string]string{"password_script": "/opt/ask", "identity_file": "/root/key"}
		}, ""},
		"a relative secret": {func(d *Device) { d.SecretFiles = map[string]string{"password": "secret"} },
			`secret_files: "password" must have the absolute path`},

		"a wrong name": {func(d *Device) { d.Match = map[string]string{"rack": "r1"} }, `match: "rack" must be pin.NAME`},
		"brackets":     {func(d *Device) { d.Match = map[string]string{"${pin.rack}": "r1"} }, `without ${}`},
		"many names":   {func(d *Device) { d.Match = many }, "match: 65 names; at most 64"},
		"a long match": {func(d *Device) { d.Match = map[string]string{"pin.a": long} }, "the value of pin.a has 4097"},

		"a wrong reference": {func(d *Device) { d.Plug = "${var.x}" }, `plug: ${var.x} must be ${pin.NAME} or`},
		"an open one":       {func(d *Device) { d.Plug = "a${pin.x" }, `plug: ${ needs a name and }`},
		"a plug of lines":   {func(d *Device) { d.Plug = "a\nb" }, `plug must be text without line ends`},

		"a wrong scope": {func(d *Device) { d.Scope = "net" }, `scope "net" must be "power" or "storage"`},
		"no storage":    {func(d *Device) { d.Scope = ScopeStorage }, `scope "storage" needs plugins or volumes`},
		"power of volumes": {func(d *Device) { d.Volumes = []string{"default/db"} },
			`plugins and volumes are for scope "storage" alone`},
		"a machine that stays on": {func(d *Device) { d.Agent = "fence_scsi" },
			`scope must be "storage": fence_scsi cuts a node off from disks`},
		"the same by its path": {func(d *Device) { d.Agent, d.Scope = "/usr/sbin/fence_mpath", ScopePower },
			`scope must be "storage": fence_mpath cuts a node off from disks`},
		"power of plugins": {func(d *Device) { d.Scope, d.Plugins = ScopePower, []string{"san"} },
			`plugins and volumes are for scope "storage" alone`},
		"a volume": {func(d *Device) { d.Scope, d.Volumes = ScopeStorage, []string{"db"} },
			`volumes: "db" must be NAMESPACE/ID, such as "default/db"`},
		"two slashes": {func(d *Device) { d.Scope, d.Volumes = ScopeStorage, []string{"a/b/c"} },
			`volumes: the ID "b/c" must not hold '/'`},
		"many volumes": {func(d *Device) { d.Scope, d.Volumes = ScopeStorage, make([]string, 257) },
			"257 volumes; at most 256"},
		"a plugin": {func(d *Device) { d.Scope, d.Plugins = ScopeStorage, []string{""} }, "plugins: the ID is required"},
		"many plugins": {func(d *Device) { d.Scope, d.Plugins = ScopeStorage, make([]string, 257) },
			"257 plugins; at most 256"},
		"a short timeout": {func(d *Device) { d.Timeout = 999 * time.Millisecond }, "timeout 999ms must be 1s to 10m0s"},
		"a long timeout":  {func(d *Device) { d.Timeout = 10*time.Minute + 1 }, "must be 1s to 10m0s, or left out for 1m0s"},
		"negative":        {func(d *Device) { d.Timeout = -1 }, "timeout -1ns must be"},
	} {
		d := Device{Name: "ipmi", Agent: "fence_ipmilan"}
		c.edit(&d)
		err := d.Validate()
		switch {
		case c.want == "" && err == nil:
		case c.want == "" || !structs.IsKind(err, structs.KindInvalid):
			t.Errorf("%s: got %v", name, err)
		case !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), `server.fencing "`):
			t.Errorf("%s: got %q, want %q", name, err, c.want)
		}
	}
	err := (&Device{Name: "ipmi", Agent: "./x", Scope: "y"}).Validate()
	if err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("got %v, want two faults", err)
	}
}

// TestDevice_RefersToNothingThatANodeTells: a lost node that names another machine as itself would be
// released by the end of that one, and a secret would go to the address that it names.
func TestDevice_RefersToNothingThatANodeTells(t *testing.T) {
	t.Parallel()
	names := []string{
		"meta.bmc", "attr.unique.hostname", "node.class", "node.pool", "node.datacenter", `meta["bmc"]`,
	}
	for _, name := range append(names, "node.unique.id") {
		ref := "x${" + name + "}"
		for place, d := range map[string]Device{
			"plug":        {Plug: ref},
			"options: ip": {Options: map[string]string{"ip": ref}},
		} {
			d.Name, d.Agent = "ipmi", "fence_ipmilan"
			wantRejected(t, d, place+": ${"+name+"} is told by the node", "${pin.NAME}")
		}
	}
	for _, name := range names {
		d := Device{Name: "ipmi", Agent: "fence_ipmilan", Match: map[string]string{name: "x"}}
		wantRejected(t, d, "match: "+strconv.Quote(name)+" is told by the node", "pin.NAME")
	}
}

func wantRejected(t *testing.T, d Device, parts ...string) {
	t.Helper()
	err := d.Validate()
	if err == nil {
		t.Errorf("%+v is taken", d)
		return
	}
	wantParts(t, err.Error(), append(parts, `server.fencing "ipmi": `, "berth node fence -pin NODE NAME=VALUE")...)
}

func TestDevice_MatchesNodesByAllNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		device Device
		want   string // a part of the reason; "": it matches
	}{
		"none":         {Device{}, ""},
		"a pin":        {Device{Match: map[string]string{"pin.rack": "r1"}}, ""},
		"two":          {Device{Match: map[string]string{"pin.rack": "r1", "pin.vmid": "vm-7"}}, ""},
		"one of two":   {Device{Match: map[string]string{"pin.rack": "r1", "pin.vmid": "8"}}, `match: pin.vmid of node 6f1d7b8e is not "8"`},
		"the name":     {Device{Match: map[string]string{"node.unique.name": "web1"}}, ""},
		"another name": {Device{Match: map[string]string{"node.unique.name": "web2"}}, `is not "web2"`},
		"the ID":       {Device{Match: map[string]string{"node.unique.id": node().NodeID}}, ""},
		"no pin":       {Device{Match: map[string]string{"pin.nothing": ""}}, `match: node 6f1d7b8e has no pin "nothing": berth node fence -pin`},
		"no option":    {Device{Options: map[string]string{"ip": "${pin.bmc}"}}, `options: ip: node 6f1d7b8e has no pin "bmc": berth node fence -pin 6f1d7b8e bmc=VALUE`},
		"no plug":      {Device{Plug: "${pin.slot}"}, `plug: node 6f1d7b8e has no pin "slot"`},
		"its options":  {Device{Options: map[string]string{"ip": "${pin.rack}"}, Plug: "${pin.vmid}"}, ""},
	} {
		got := c.device.Matches(node())
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	d := Device{Match: map[string]string{"node.unique.name": "web1"}}
	wantParts(t, d.Matches(unnamed()), "match: the name of node 6f1d7b8e is its own word")
}

func TestDevice_CoversTheVolumesOfItsScope(t *testing.T) {
	t.Parallel()
	power := Device{}
	storage := Device{
		Scope:   ScopeStorage,
		Plugins: []string{"san"},
		Volumes: []string{"default/db", "prod/logs"},
	}
	for name, c := range map[string]struct {
		device *Device
		volume [3]string // plugin, namespace, ID
		want   bool
	}{
		"power":             {&power, [3]string{"nfs", "prod", "x"}, true},
		"its plugin":        {&storage, [3]string{"san", "prod", "x"}, true},
		"its volume":        {&storage, [3]string{"nfs", "prod", "logs"}, true},
		"default":           {&storage, [3]string{"nfs", "", "db"}, true},
		"another":           {&storage, [3]string{"nfs", "prod", "x"}, false},
		"another namespace": {&storage, [3]string{"nfs", "prod", "db"}, false},
	} {
		got := c.device.Covers(c.volume[0], c.volume[1], c.volume[2])
		if got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
