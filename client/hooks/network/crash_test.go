package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/hooks"
	"berth/client/machine/cni"
	"berth/client/machine/netns"
	"berth/client/store"
	"berth/structs"
	"berth/test/kit"
)

// crashVar names the directory of a process that makes and takes down one network and is killed meanwhile.
const crashVar = "BERTH_TEST_CRASH"

// plan is the order for the process.
type plan struct {
	ID, Bridge, Subnet string
	Port               int
	At                 string // the step at which the process is killed
}

// steps are the steps of Up and Down. A step of a plugin kills the process from outside while the plugin
// runs.
func steps() []string {
	var all []string
	for _, when := range []string{"before", "after"} {
		for _, command := range []string{"ADD", "DEL"} {
			for _, plugin := range []string{"bridge", "host-local", "portmap"} {
				all = append(all, command+" "+plugin+" "+when)
			}
		}
		all = append(all, "make "+when, "remove "+when)
	}
	return append(all, "up", "down")
}

// wrapper is a plugin that kills the process at its step, and then works on for a while.
const wrapper = `#!/bin/sh
name=$(basename "$0"); dir=$(dirname "$0"); at=$(cat "$dir/../at")
kill_at() { [ "$at" = "$CNI_COMMAND $name $1" ] && kill -9 "$(cat "$dir/../pid")" && sleep 0.3; }
kill_at before
%s/$name; code=$?
kill_at after
exit $code
`

// networksOf returns the networks of a plan, with the wrappers if there are any.
func networksOf(p *plan, dir string) *cni.Networks {
	return cni.New(cni.Settings{
		Path:         filepath.Join(dir, "plugins"),
		BridgeName:   p.Bridge,
		BridgeSubnet: p.Subnet,
	}, filepath.Join(dir, "cni"))
}

func (p *plan) hookIn(db *store.DB, dir string, namespaces Namespaces) (hooks.Alloc, *hooks.AllocEnv) {
	env := envOf(p.ID, bridge(), structs.AllocatedPort{
		Label:  "http",
		Value:  p.Port,
		To:     80,
		HostIP: "127.0.0.1",
	})
	return New(Config{
		DB:         db,
		Dir:        filepath.Join(dir, "allocs"),
		Namespaces: namespaces,
		Networks:   networksOf(p, dir),
		Logger:     hclog.NewNullLogger(),
	}, env), env
}

// crashing are the namespaces of the process.
type crashing struct{ at string }

func (c crashing) step(name string) {
	if c.at == name {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}

func (c crashing) Make(path string) error {
	c.step("make before")
	err := netns.Make(path)
	c.step("make after")
	return err
}

func (c crashing) Remove(path string) error {
	if netns.IsLive(path) {
		c.step("remove before")
		defer c.step("remove after")
	}
	return netns.Remove(path)
}

func (crashing) IsLive(path string) bool { return netns.IsLive(path) }

// runAgent is the process.
func runAgent(dir string) {
	err := func() error {
		b, err := os.ReadFile(filepath.Join(dir, "plan"))
		if err != nil {
			return err
		}
		p := &plan{}
		if err := json.Unmarshal(b, p); err != nil {
			return err
		}
		db, err := store.Open(filepath.Join(dir, "db"))
		if err != nil {
			return err
		}
		c := crashing{p.At}
		h, env := p.hookIn(db, dir, c)
		if err := h.Up(context.Background(), env); err != nil {
			return err
		}
		c.step("up")
		if err := h.Down(context.Background()); err != nil {
			return err
		}
		c.step("down")
		return errors.New("nothing has killed the process")
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// crash runs the process until it is killed.
func (p *plan) crash(t *testing.T, dir string) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("plan", string(b))
	write("at", p.At)
	if err := os.Mkdir(filepath.Join(dir, "plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bridge", "host-local", "portmap"} {
		text := fmt.Sprintf(wrapper, kit.CNIPlugins(t))
		if err := kit.WriteProgram(filepath.Join(dir, "plugins", name), text); err != nil {
			t.Fatal(err)
		}
	}
	// The shell writes its pid, which the process then has.
	cmd := exec.Command("sh", "-c", `echo $$ >"$0/pid" && exec "$1"`, dir, os.Args[0])
	cmd.Env = append(os.Environ(), crashVar+"="+dir)
	out, err := cmd.CombinedOutput()
	if state := cmd.ProcessState; state == nil || !strings.Contains(state.String(), "killed") {
		t.Fatalf("%v\n%s", err, out)
	}
	write("at", "")
}

// An agent is killed at each step of the set-up and the end of a network. The next agent makes the network
// for tasks that still run, or takes it down. Nothing is left then.
func TestCrash_LeavesNothing(t *testing.T) {
	kit.CNIPlugins(t)
	if !kit.InOwnNetwork(t, "iptables") {
		return
	}
	for i, at := range steps() {
		for j, again := range []bool{true, false} {
			p := &plan{
				ID:     fmt.Sprintf("crash-%d-%d-%d", os.Getpid(), i, j),
				Bridge: fmt.Sprintf("b%d-%d-%d", os.Getpid(), i, j),
				Subnet: fmt.Sprintf("10.%d.%d.0/24", 100+j, i),
				Port:   20_000 + 2*i + j,
				At:     at,
			}
			t.Run(fmt.Sprintf("%s, used again %v", at, again), func(t *testing.T) {
				t.Parallel()
				p.testCrash(t, again)
			})
		}
	}
}

func (p *plan) testCrash(t *testing.T, again bool) {
	dir := t.TempDir()
	ipam := "/var/lib/cni/networks/" + p.Bridge
	t.Cleanup(func() { _ = os.RemoveAll(ipam) })
	t.Cleanup(func() { _ = netns.Remove(netns.Path(p.ID)) }) // if the test fails
	p.crash(t, dir)
	db := openDB(t, filepath.Join(dir, "db"))
	h, env := p.hookIn(db, dir, crashing{})
	if again {
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		p.checkTraffic(t, env.Network().Namespace)
	}
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.checkGone(t, dir, ipam)
}

// checkTraffic checks that the port of the node leads into the namespace, and that the namespace reaches the
// bridge.
func (p *plan) checkTraffic(t *testing.T, namespace string) {
	t.Helper()
	var inside net.Listener
	err := netns.Do(namespace, func() (err error) {
		inside, err = net.Listen("tcp", ":80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	go func() {
		conn, err := inside.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, p.ID)
			_ = conn.Close()
		}
	}()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", p.Port), 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != p.ID {
		t.Errorf("through the port: %q, %v", got, err)
	}
}

// checkGone checks that nothing of the namespace is left.
func (p *plan) checkGone(t *testing.T, dir, ipam string) {
	t.Helper()
	if _, err := os.Lstat(netns.Path(p.ID)); !os.IsNotExist(err) {
		t.Errorf("the namespace is left: %v", err)
	}
	links, err := exec.Command("ip", "-o", "link", "show", "master", p.Bridge).CombinedOutput()
	if text := string(links); text != "" && !strings.Contains(text, "does not exist") {
		t.Errorf("links of the bridge: %s, %v", links, err)
	}
	rules, err := exec.Command("iptables-save").Output()
	if err != nil || strings.Contains(string(rules), p.ID) {
		t.Errorf("rules: %s, %v", rules, err)
	}
	files, err := os.ReadDir(ipam)
	for _, f := range files {
		if net.ParseIP(f.Name()) != nil {
			t.Errorf("address %s is still given", f.Name())
		}
	}
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, name := range []string{"allocs", "cni/cache/results"} {
		left, _ := os.ReadDir(filepath.Join(dir, name))
		if len(left) > 0 {
			t.Errorf("files in %s: %v", name, left)
		}
	}
}
