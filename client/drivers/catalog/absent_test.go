package catalog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
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

// retry opens a catalog that lacks a plugin, and follows it until mend has brought its program.
func retry(t *testing.T, cfg Config, reason string, mend func()) {
	t.Helper()
	c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatalf("the agent would not start: %v", err)
	}
	s := supervise(t, c, openStore(t), quick)
	for range 2 { // the reason of the agent's start, and that of another attempt
		if err := receive(t, s.failed); !strings.Contains(err.Error(), reason) {
			t.Errorf("got %v, want %q", err, reason)
		}
	}
	mend()
	receive(t, s.used)
}

// After a reboot the file system of the directory may come later than the agent.
func TestOpen_KeepsAPluginWhoseProgramIsMissingForLater(t *testing.T) {
	for name, without := range map[string]func(dir string) error{
		"no directory": os.RemoveAll,
		"empty":        func(dir string) error { return os.Remove(filepath.Join(dir, "p")) },
		"no program": func(dir string) error {
			return os.Chmod(filepath.Join(dir, "p"), 0o600)
		},
		"no file": func(dir string) error {
			path := filepath.Join(dir, "p")
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
		"no link target": func(dir string) error {
			path := filepath.Join(dir, "p")
			return errors.Join(os.Remove(path), os.Symlink("/nonexistent/p", path))
		},
		"not readable": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "plugins")
			cfg := configOf(t, dir)
			mend := func() {
				err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
				if err != nil {
					t.Fatal(err)
				}
				program(t, dir, "p", "good")
			}
			mend()
			if _, err := Open(t.Context(), cfg, hclog.NewNullLogger()); err != nil {
				t.Fatal(err)
			}
			if err := without(dir); err != nil {
				t.Fatal(err)
			}
			retry(t, cfg, dir, mend)
		})
	}
}

// A link needs no block.
func TestOpen_KeepsADanglingLinkForLater(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, name := range []string{"nomad-device-tester", ".#lock"} {
		err := os.Symlink(filepath.Join(elsewhere, name), filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg := configOf(t, dir)
	cfg.Plugins = nil
	retry(t, cfg, "no such file", func() { program(t, elsewhere, "nomad-device-tester", "lenient") })
}

func TestOpen_UsesTheFirstOfTwoProgramsWithOneName(t *testing.T) {
	for _, hasBlock := range []bool{true, false} {
		dir := t.TempDir()
		program(t, dir, "p", "good")
		program(t, dir, "p.old", "good")
		cfg := configOf(t, dir)
		if hasBlock {
			cfg.Plugins = append(cfg.Plugins, &PluginConfig{Name: "p.old", Config: cfg.Plugins[0].Config})
		}
		c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
		if err != nil {
			t.Fatalf("the agent would not start: %v", err)
		}
		first, second := c.plugins["tester"], c.plugins["p.old"]
		if len(c.plugins) != 2 || filepath.Base(first.path) != "p" || first.IsAbsent() || !second.IsAbsent() {
			t.Fatalf("the plugins are %v", c.plugins)
		}
		for range 2 {
			_, err = c.Start(t.Context(), "p.old")
			told := err != nil && strings.Contains(err.Error(), `/p has the name "tester", too; remove one`)
			needs := err != nil && strings.Contains(err.Error(), `no block plugin "p.old"`)
			if told != hasBlock || needs == hasBlock {
				t.Errorf("with a block %t: got %v", hasBlock, err)
			}
		}
	}
}

// A program whose name another one has is told of by its file, also if it does not answer.
func TestOpen_TellsOfAnAbsentProgramWhoseNameIsTaken(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "nomad-device-tester", "exits")
	program(t, dir, "p", "good")
	c, err := Open(t.Context(), configOf(t, dir), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	taken := c.plugins["nomad-device-tester"]
	if taken == nil || !strings.Contains(taken.reason.Error(), "no licence") ||
		c.plugins["tester"].IsAbsent() {
		t.Errorf("the plugins are %v", c.plugins)
	}
}

func TestOpen_RejectsABlockWithoutADirectory(t *testing.T) {
	_, err := Open(t.Context(), configOf(t, ""), hclog.NewNullLogger())
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "plugin_dir") {
		t.Errorf("got %v", err)
	}
}
