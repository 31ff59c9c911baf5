package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// lab is a machine with plugins that are scripts and with one network of two of them.
type lab struct {
	t   *testing.T
	dir string
}

func newLab(t *testing.T) *lab {
	l := &lab{t, t.TempDir()}
	l.write("conf/lab.conflist", `{"cniVersion": "0.4.0", "name": "lab",
		"plugins": [{"type": "first"}, {"type": "second", "capabilities": {"portMappings": true}}]}`)
	l.plugin("first", "")
	l.plugin("second", "")
	return l
}

func (l *lab) write(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		l.t.Fatal(err)
	}
}

// result is the result of each plugin.
const result = `{"cniVersion": "0.4.0", "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/ns"}],
	"ips": [{"version": "4", "interface": 0, "address": "10.0.0.1/24"},
		{"version": "4", "interface": 1, "address": "10.0.0.7/24"}], "dns": {"nameservers": ["10.0.0.53"]}}`

// plugin makes a plugin that notes its calls with their input, and then runs a script.
func (l *lab) plugin(name, script string) {
	l.write("bin/"+name, fmt.Sprintf(`#!/bin/sh
[ "$1" = --version ] && { echo "CNI %s plugin v1.2.3" >&2; exit 0; }
{ echo "$CNI_COMMAND %s $CNI_CONTAINERID"; cat; echo; } >>%s/calls
%s
[ $CNI_COMMAND = ADD ] && echo '%s'
exit 0
`, name, name, l.dir, script, result))
}

// calls returns the notes about calls since the last time.
func (l *lab) calls() string {
	b, _ := os.ReadFile(filepath.Join(l.dir, "calls"))
	_ = os.Remove(filepath.Join(l.dir, "calls"))
	return string(b)
}

func (l *lab) networks() *Networks {
	return New(Settings{
		Path:      filepath.Join(l.dir, "bin"),
		ConfigDir: filepath.Join(l.dir, "conf"),
	}, filepath.Join(l.dir, "state"))
}

var target = Target{ID: "a1", Namespace: "/nonexistent"}

func (l *lab) planned() *Attachment {
	l.t.Helper()
	a, err := l.networks().Plan("cni/lab", []structs.AllocatedPort{
		{Label: "http", Value: 8080, To: 80, HostIP: "10.1.1.1"},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

func saved() error { return nil }

func TestAttach_CallsThePluginsInOrder(t *testing.T) {
	l := newLab(t)
	a := l.planned()
	saves := 0
	status, err := l.networks().Attach(t.Context(), target, a, func() error { saves++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if status.InterfaceName != "eth0" || status.Address != "10.0.0.7" || status.DNS.Servers[0] != "10.0.0.53" {
		t.Errorf("status %+v", status)
	}
	if saves != 2 || string(a.Result) == "" {
		t.Errorf("%d saves, result %s", saves, a.Result)
	}
	calls := l.calls()
	first, second, _ := strings.Cut(calls, "ADD second a1")
	if !strings.HasPrefix(first, "ADD first a1\n") || strings.Contains(first, "portMappings") ||
		!strings.Contains(second, `"hostPort":8080`) || !strings.Contains(second, `"containerPort":80`) ||
		!strings.Contains(second, `"hostIP":"10.1.1.1"`) || !strings.Contains(second, `"protocol":"udp"`) {
		t.Errorf("calls %s", calls)
	}
	if err := l.networks().Detach(t.Context(), target, a); err != nil {
		t.Fatal(err)
	}
	first, second, _ = strings.Cut(l.calls(), "DEL first a1")
	if !strings.HasPrefix(first, "DEL second a1\n") || !strings.Contains(second, `"prevResult"`) {
		t.Errorf("calls %s and %s", first, second)
	}
}

// Plugins of two networks may make the same chain of the packet filter at once, and the second one fails.
func TestAttach_TriesAgain(t *testing.T) {
	l := newLab(t)
	l.plugin("second", `[ $CNI_COMMAND = DEL ] || [ $(grep -c "ADD second" `+l.dir+`/calls) -ge 3 ] || {
		echo '{"code": 11, "msg": "chain exists"}'
		exit 1
	}`)
	_, err := l.networks().Attach(t.Context(), target, l.planned(), saved)
	calls := l.calls()
	if err != nil || strings.Count(calls, "ADD first") != 3 || strings.Count(calls, "DEL first") != 2 {
		t.Errorf("got %v; calls %s", err, calls)
	}
	full := func() error { return errors.New("disk full") }
	_, err = l.networks().Attach(t.Context(), target, l.planned(), full)
	calls = l.calls()
	if err == nil || strings.Count(calls, "ADD") != 1 {
		t.Errorf("an attachment that cannot be recorded is tried again: %v; calls %s", err, calls)
	}
}

// A plugin finds the result of an attachment that was never complete: it may have to undo something for it.
func TestDetach_GivesTheResultOfAPart(t *testing.T) {
	l := newLab(t)
	l.plugin("second", `[ $CNI_COMMAND = ADD ] && {
		echo '{"code": 11, "msg": "no capacity", "details": "at all"}'
		exit 1
	}`)
	a := l.planned()
	_, err := l.networks().Attach(t.Context(), target, a, saved)
	if err == nil || !strings.Contains(err.Error(), "plugin second: no capacity; at all") {
		t.Fatalf("got %v", err)
	}
	l.calls()
	if err := l.networks().Detach(t.Context(), target, a); err != nil {
		t.Fatal(err)
	}
	calls := l.calls()
	if strings.Count(calls, `"prevResult"`) != 2 || strings.Count(calls, "10.0.0.7") != 2 {
		t.Errorf("calls %s", calls)
	}
}

// The end of an attachment does not depend on the present configuration.
func TestDetach_UsesTheConfigurationOfTheAttachment(t *testing.T) {
	l := newLab(t)
	a := l.planned()
	if err := os.RemoveAll(filepath.Join(l.dir, "conf")); err != nil {
		t.Fatal(err)
	}
	if err := l.networks().Detach(t.Context(), target, a); err != nil {
		t.Fatal(err)
	}
	if calls := l.calls(); strings.Count(calls, "DEL") != 2 || !strings.Contains(calls, "8080") {
		t.Errorf("calls %s", calls)
	}
}

func TestAttach_NamesTheFaultOfAPlugin(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"exit":          {"echo oops >&2; exit 3", "plugin second: exit status 3: oops"},
		"no result":     {"exit 0", "attaching to network"},
		"a long result": {"head -c 2000000 /dev/zero; exit 0", "more than 1048576 bytes"},
		"not a result":  {"echo hello; exit 0", "attaching to network"},
		"no address":    {`echo '{"cniVersion": "0.4.0"}'; exit 0`, "no interface with an address"},
		"bad interfaces": {`echo '{"cniVersion": "0.4.0",
			"ips": [{"version": "4", "interface": 7, "address": "1.1.1.1/8"}]}'; exit 0`, "no interface"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.plugin("second", c.script)
			_, err := l.networks().Attach(t.Context(), target, l.planned(), saved)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.500v", err)
			}
		})
	}
	l := newLab(t)
	full := func() error { return errors.New("disk full") }
	_, err := l.networks().Attach(t.Context(), target, l.planned(), full)
	if err == nil || strings.Contains(l.calls(), "second") {
		t.Errorf("an attachment that cannot be recorded goes on: %v", err)
	}
}

// A plugin that runs for a killed agent has the lock of its network.
func TestAttach_WaitsForAPluginOfAnEarlierAgent(t *testing.T) {
	l := newLab(t)
	n := l.networks()
	held, err := n.lock(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = n.Attach(ctx, target, l.planned(), saved)
	if !structs.IsKind(err, structs.KindTimeout) || l.calls() != "" {
		t.Errorf("got %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = n.Attach(t.Context(), target, l.planned(), saved)
	if err != nil {
		t.Error(err)
	}
	l.plugin("second", `(exec sleep 120) >/dev/null 2>&1 & echo $! >`+l.dir+`/child`)
	_, err = n.Attach(t.Context(), target, l.planned(), saved)
	if err != nil {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.lock(ctx, "lab"); err == nil {
		t.Error("a child of a plugin does not have the lock")
	}
	b, err := os.ReadFile(filepath.Join(l.dir, "child"))
	var pid int
	if _, scanErr := fmt.Sscan(string(b), &pid); err != nil || scanErr != nil {
		t.Fatal(err, scanErr)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A plugin that is called goes on for a while when the allocation is to stop, and is killed then.
func TestPatient_EndsAWhileLater(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	longer, end := patient(ctx)
	defer end()
	cancel()
	if longer.Err() != nil {
		t.Error("it ends at once")
	}
	<-longer.Done() // after endGrace
}

func TestFind_ReportsNetworksAndFaults(t *testing.T) {
	l := newLab(t)
	l.write("conf/a.conf", `{"cniVersion": "0.4.0", "name": "single", "type": "first"}`)
	l.write("conf/b.conflist", `{"name": `)
	l.write("conf/c.conflist", `{"cniVersion": "0.4.0", "name": "../x", "plugins": [{"type": "first"}]}`)
	l.write("conf/d.conflist", `{"cniVersion": "0.4.0", "name": "single", "plugins": [{"type": "first"}]}`)
	l.write("conf/e.conflist", `{"cniVersion": "0.4.0", "name": "berth", "plugins": [{"type": "first"}]}`)
	l.write("conf/f.conflist", strings.Repeat(" ", maxConfigSize+1))
	l.write("conf/ignored.txt", "x")
	l.write("bin/data", "no program")
	if err := os.Chmod(filepath.Join(l.dir, "bin/data"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := l.networks().Find(t.Context())
	var modes []string
	for _, m := range found.Modes {
		modes = append(modes, m.Mode)
	}
	if got := strings.Join(modes, " "); got != "cni/single cni/lab" {
		t.Errorf("modes %s", got)
	}
	if len(found.Faults) != 5 {
		t.Errorf("faults %v", found.Faults)
	}
	if found.NoBridge == nil || !strings.Contains(found.NoBridge.Error(), "the CNI plugin portmap") {
		t.Errorf("the bridge: %v", found.NoBridge)
	}
	if len(found.Attributes) != 2 || found.Attributes["plugins.cni.version.first"] != "1.2.3" {
		t.Errorf("attributes %v", found.Attributes)
	}
	if _, err := l.networks().Plan("cni/other", nil); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("an unknown network: %v", err)
	}
}

func TestSettings_NameTheFault(t *testing.T) {
	if faults := (Settings{}).Faults(); len(faults) > 0 {
		t.Errorf("without settings: %v", faults)
	}
	for want, s := range map[string]Settings{
		"client.cni_path":                         {Path: "/a:b"},
		"client.cni_config_dir":                   {ConfigDir: "b"},
		`client.bridge_network_name: "a/b"`:       {BridgeName: "a/b"},
		"must be 1 to 15":                         {BridgeName: "abcdefghijklmnop"},
		`client.bridge_network_subnet: "10.0.0.1`: {BridgeSubnet: "10.0.0.1/24"},
		`"fd00::/64" is no IPv4 network`:          {BridgeSubnet: "fd00::/64"},
		`"10.0.0.0/31" is no`:                     {BridgeSubnet: "10.0.0.0/31"},
	} {
		faults := s.Faults()
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), want) {
			t.Errorf("%+v: got %v, want %s", s, faults, want)
		}
	}
}
