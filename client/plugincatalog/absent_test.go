package plugincatalog

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// A program that fails at a start of the agent keeps the name that it had, and is used when it answers.
func TestOpen_KeepsAPluginThatCannotStartForLater(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "p", "good")
	cfg := configOf(t, dir)
	if _, err := Open(t.Context(), cfg, hclog.NewNullLogger()); err != nil {
		t.Fatal(err)
	}
	program(t, dir, "p", "exits")
	c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if devices := c.Plugins(Device); len(devices) != 1 || devices[0].Name != "tester" {
		t.Fatalf("the plugins are %v", c.plugins)
	}
	s := supervise(t, c, openStore(t), quick)
	for range 2 { // the reason of the agent's start, and that of another attempt
		if err := receive(t, s.failed); !strings.Contains(err.Error(), "no licence") {
			t.Errorf("got %v", err)
		}
	}
	program(t, dir, "p", "good")
	receive(t, s.used)
}

func TestStart_OfAnUnknownProgramThatIsAnotherPluginNamesTheRemedy(t *testing.T) {
	c, err := opened(t, "exits")
	if err != nil {
		t.Fatal(err)
	}
	if drivers := c.Plugins(Driver); len(drivers) != 1 || drivers[0].Name != "p" {
		t.Fatalf("the plugins are %v", c.plugins)
	}
	program(t, c.cfg.Dir, "p", "good")
	_, _ = c.Start(t.Context(), "p") // the reason of the agent's start
	_, err = c.Start(t.Context(), "p")
	if err == nil || !strings.Contains(err.Error(), `the device "tester"; restart the agent`) {
		t.Errorf("got %v", err)
	}
}

func TestIdentity_IsGuessedByTheUsualNamesOfFiles(t *testing.T) {
	c := &Catalog{cfg: Config{Sockets: t.TempDir()}}
	for file, want := range map[string]identity{
		"nomad-driver-podman": {"podman", Driver},
		"nomad-device-nvidia": {"nvidia", Device},
		"pledge":              {"pledge", Driver},
	} {
		if got := c.identityOf(file); got != want {
			t.Errorf("%s: got %v, want %v", file, got, want)
		}
	}
}
