package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/structs"
)

// runtimeProgram makes a runtime that notes that it was used.
func runtimeProgram(t *testing.T) (path, note string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "runtime")
	note = filepath.Join(dir, "note")
	script := "#!/bin/sh\necho used >> " + note + "\nexec runc \"$@\"\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, note
}

// TestDaemon_RunsWithTheRuntimeOfTheJob if the node allows it.
func TestDaemon_RunsWithTheRuntimeOfTheJob(t *testing.T) {
	t.Parallel()
	path, note := runtimeProgram(t)
	n := newNode(t, "--add-runtime", "odd="+path, "--add-runtime", "nvidia="+path)
	given := map[string]string{gpuVariable: "GPU-1"}
	for name, c := range map[string]struct {
		allow   []string
		runtime string
		edit    func(*driver.TaskConfig)
		fault   string
	}{
		"the default":       {nil, "runc", nil, ""},
		"none":              {[]string{}, "", nil, ""},
		"an allowed one":    {[]string{"odd"}, "odd", nil, ""},
		"not allowed":       {nil, "odd", nil, `config.runtime: "odd": this node allows runc, nvidia (allow_runtimes`},
		"the default is no": {[]string{"odd"}, "runc", nil, `"runc": this node allows odd`},
		"unknown":           {[]string{"other"}, "other", nil, "other"},
		"a GPU": {nil, "nvidia", func(cfg *driver.TaskConfig) {
			cfg.DeviceEnv = given
			cfg.Env[gpuVariable] = "GPU-1"
		}, ""},
		"no GPU":               {nil, "nvidia", nil, "which a device of the task has to set"},
		"no GPU, allowed":      {[]string{"nvidia"}, "nvidia", nil, "which a device of the task has to set"},
		"a GPU of the job":     {nil, "nvidia", setGPUs(nil), "which a device of the task has to set"},
		"more than the device": {nil, "nvidia", setGPUs(given), "which a device of the task has to set"},
		"a CSI plugin":         {nil, "odd", func(cfg *driver.TaskConfig) { cfg.Privileged = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sub := *n
			sub.t = t
			_ = os.Remove(note)
			sub.cfg.AllowRuntimes = c.allow
			d, _ := sub.agent()
			cfg := sub.task(strings.NewReplacer(" ", "-", ",", "").Replace(name), "out:ran")
			if c.runtime != "" {
				cfg.Config["runtime"] = c.runtime
			}
			if c.edit != nil {
				c.edit(cfg)
			}
			_, err := d.Start(sub.ctx, cfg)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("got %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sub.wait(d, cfg)
			sub.destroy(d, cfg)
			_, err = os.Stat(note)
			if used := err == nil; used != (c.runtime == "odd" || c.runtime == "nvidia") {
				t.Errorf("the other runtime was used: %t", used)
			}
			if out := sub.output(cfg, "stdout"); out != "ran\n" {
				t.Errorf("the output is %q", out)
			}
		})
	}
}

// setGPUs makes a task whose variable names all GPUs, and whose devices set another value.
func setGPUs(given map[string]string) func(*driver.TaskConfig) {
	return func(cfg *driver.TaskConfig) {
		cfg.DeviceEnv = given
		cfg.Env[gpuVariable] = "all"
	}
}

// TestDaemon_KeepsItsOwnDefaultRuntime: an operator who isolates containers with another runtime does not
// allow the usual one.
func TestDaemon_KeepsItsOwnDefaultRuntime(t *testing.T) {
	t.Parallel()
	path, note := runtimeProgram(t)
	n := newNode(t, "--add-runtime", "odd="+path, "--default-runtime", "odd")
	d, _ := n.agent()
	cfg := n.task("usual", "out:ran")
	cfg.Config["runtime"] = "runc"
	if _, err := d.Start(n.ctx, cfg); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("the usual runtime: %v", err)
	}
	cfg.Config["runtime"] = "odd"
	if _, out := n.run(d, cfg); out != "ran\n" {
		t.Errorf("the output is %q", out)
	}
	if _, err := os.Stat(note); err != nil {
		t.Errorf("the runtime was not used: %v", err)
	}
}

// TestDaemon_GivesNoGPUsByItsDefaultRuntime: the default runtime gives the GPUs that a variable of the
// image or of the job names.
func TestDaemon_GivesNoGPUsByItsDefaultRuntime(t *testing.T) {
	t.Parallel()
	path, note := runtimeProgram(t)
	n := newNode(t, "--add-runtime", "nvidia="+path, "--default-runtime", "nvidia")
	given := map[string]string{gpuVariable: "GPU-1"}
	for name, c := range map[string]struct {
		edit func(*driver.TaskConfig)
		want string
	}{
		"plain":           {func(*driver.TaskConfig) {}, "void"},
		"no-variables":    {func(cfg *driver.TaskConfig) { cfg.Env = nil }, "void"},
		"a-GPU-of-itself": {setGPUs(nil), "void"},
		"another-GPU":     {setGPUs(given), "GPU-1"},
		"a-device": {func(cfg *driver.TaskConfig) {
			cfg.DeviceEnv = given
			cfg.Env[gpuVariable] = "GPU-1"
		}, "GPU-1"},
		"an-empty-device": {setGPUs(map[string]string{gpuVariable: ""}), "void"},
		"a-CSI-plugin": {func(cfg *driver.TaskConfig) {
			cfg.Privileged = true
			cfg.Env[gpuVariable] = "all"
		}, "all"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := *n
			sub.t = t
			_ = os.Remove(note)
			d, _ := sub.agent()
			cfg := sub.task(name, "env:"+gpuVariable)
			c.edit(cfg)
			asked := cfg.Env[gpuVariable]
			if _, out := sub.run(d, cfg); strings.TrimSpace(out) != c.want {
				t.Errorf("%s is %q, want %q", gpuVariable, out, c.want)
			}
			if _, err := os.Stat(note); err != nil {
				t.Errorf("the default runtime was not used: %v", err)
			}
			if cfg.Env[gpuVariable] != asked {
				t.Error("the configuration of the caller has changed")
			}
		})
	}
}
