package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"berth/client/drivers/driver"
	"berth/client/machine/netns"
	"berth/structs"
)

// inNetwork gives a task a network namespace with a name and files of its own.
func (r *fixture) inNetwork(cfg *driver.TaskConfig) {
	r.t.Helper()
	cfg.Network = &driver.Network{
		Namespace: filepath.Join(r.dir, "namespace"),
		Hostname:  "web-0",
		Hosts:     filepath.Join(r.dir, "hosts"),
		Resolver:  filepath.Join(r.dir, "resolver"),
	}
	err := netns.Make(cfg.Network.Namespace)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := netns.Remove(cfg.Network.Namespace); err != nil {
			r.t.Error(err)
		}
	})
	for _, path := range []string{cfg.Network.Hosts, cfg.Network.Resolver} {
		text := "# " + filepath.Base(path) + "\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A task, and a command beside it, are in the network of their allocation.
func TestNetwork_IsThatOfTheAllocation(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `
		readlink /proc/self/ns/net
		hostname; cat /etc/hosts /etc/resolv.conf
		echo x 2>/dev/null >> /etc/hosts || echo read-only
		exec sleep 1000`)
	r.inNetwork(cfg)
	r.start(cfg)
	r.awaitOutput(cfg, "web-0\n# hosts\n# resolver\nread-only\n")
	var link string
	err := netns.Do(cfg.Network.Namespace, func() (err error) {
		link, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.awaitOutput(cfg, link)
	res, out, err := r.command(cfg.ID, "readlink /proc/self/ns/net; hostname")
	if err != nil || out != link+"\nweb-0\n" {
		t.Errorf("a command: %+v, %q, %v", res, out, err)
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil || own == link {
		t.Errorf("the agent is in %s, %v", own, err)
	}
}

func TestNetwork_AMissingNamespaceIsAnError(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "true")
	cfg.Network = &driver.Network{Namespace: filepath.Join(r.dir, "missing")}
	_, err := r.Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	r.checkClean(cfg)
}
