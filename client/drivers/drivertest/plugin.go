package drivertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/test/kit"
)

// The environment variables that make a test binary a plugin.
const (
	kindVar    = "BERTH_PLUGINTEST"
	controlVar = "BERTH_PLUGINTEST_DIR"
)

// The kinds of plugins. The name of each is "test-" and its kind, see also Plugin.Set.
const (
	DriverPlugin = "driver"
	DevicePlugin = "device"
)

// The faults of a method. Others are described at Plugin.Set.
const (
	Hang    = "hang"    // no answer until the fault changes
	Exit    = "exit"    // the process ends
	Huge    = "huge"    // an answer of 8 MB
	Garbage = "garbage" // an answer that is no message of the method
	Fail    = "fail"    // an error
	Retry   = "retry"   // an error that is marked as recoverable
	Close   = "close"   // a stream without a message
)

// PluginMain serves the plugin and returns true if the process was started as one.
func PluginMain() bool {
	kind := os.Getenv(kindVar)
	if kind == "" {
		return false
	}
	p := &Plugin{dir: os.Getenv(controlVar)}
	// It ends before the handshake, with a last word that the agent has to report.
	if p.setting("start") == Exit {
		fmt.Fprintln(os.Stderr, "this plugin does not start")
		os.Exit(3)
	}
	serve(kind, p)
	return true
}

// PeerPlugin returns the path of a plugin of the peer, which nobody here wrote (see scripts/peer-plugins.sh),
// or skips the test.
func PeerPlugin(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("PEER_PLUGINS")
	if dir == "" {
		kit.SkipLacking(t, "the peer's plugins: PEER_PLUGINS=$(scripts/peer-plugins.sh)")
	}
	return filepath.Join(dir, name)
}

// Plugin controls the processes of a program. A test switches its faults on and off while it runs. The
// program is the test binary itself: its TestMain calls PluginMain first.
type Plugin struct {
	t   testing.TB
	dir string // one file for each setting, and the log of calls
}

// InstallPlugin writes the program of a plugin into a directory of plugins. It executes the test binary or
// its kit.PlainProgram: see PluginMain. A package that starts few plugins does not need the time to build the
// latter.
func InstallPlugin(t testing.TB, dir, kind, binary string) *Plugin {
	t.Helper()
	p := &Plugin{t: t, dir: t.TempDir()}
	// Two plugins of one test need different values, and both get the environment of the agent.
	text := fmt.Sprintf("#!/bin/sh\n%s='%s' %s='%s' exec '%s' \"$@\"\n",
		kindVar, kind, controlVar, p.dir, binary)
	err := kit.WriteProgram(filepath.Join(dir, "test-"+kind), text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Set changes a setting: the fault of a method ("StartTask"), or of the start of the process ("start"); the
// health of the driver ("health": unhealthy, undetected), and whether it repeats its report without a pause
// ("flood": yes); its isolation ("isolation": chroot, image); whether it takes users that the agent allots
// ("users": dynamic); its attributes ("attributes": a number); the start of a task that takes a while
// ("pull": hang), or after which the process ends without an answer ("answer": exit); where it looks for the
// pipes of the output ("pipes": logs, by their names in the logs of the allocation); whether it runs commands
// ("exec": no) and reports their ends ("result": no); the IDs of the devices ("devices": separated by spaces)
// and the name of their group ("group"); the name of the plugin ("name"). "" is the default.
func (p *Plugin) Set(name, value string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	// Renamed into place, so that a process never reads a part of a value.
	err := os.WriteFile(path+".tmp", []byte(value), 0o600)
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// Emit makes the driver send an event of a task.
func (p *Plugin) Emit(allocID, task, message string) {
	p.t.Helper()
	// The fields are apart by tabs, and only the message may have more of them.
	p.append("events", allocID+"\t"+task+"\t"+message)
}

// Calls counts the calls of a method, of all processes.
func (p *Plugin) Calls(method string) int {
	count := 0
	for _, line := range p.Lines("calls") {
		if line == method {
			count++
		}
	}
	return count
}

// Await waits for the n-th call of a method.
func (p *Plugin) Await(method string, n int) {
	p.t.Helper()
	// The bound is for machines under load: the call itself takes milliseconds.
	for limit := time.Now().Add(2 * time.Minute); p.Calls(method) < n; time.Sleep(pollInterval) {
		if time.Now().After(limit) {
			p.t.Fatalf("%s was called %d times in two minutes, want %d", method, p.Calls(method), n)
		}
	}
}

// setting reads a setting, "" for one that no test has set. Each use reads it anew.
func (p *Plugin) setting(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(text)
}

// Lines returns what was added to a file: "calls" are the methods, "started" the configurations of tasks in
// JSON, "commands" the pids of commands.
func (p *Plugin) Lines(name string) []string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	// Each line ends with a line break, so the last part is empty or not written whole.
	all := strings.Split(string(text), "\n")
	return all[:len(all)-1]
}

// append adds a line to a file.
func (p *Plugin) append(name, line string) {
	// Several processes of a plugin may add lines at a time.
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	f, err := os.OpenFile(filepath.Join(p.dir, name), flags, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		_ = f.Close()
	}

	// A process of the plugin has no test to fail.
	if err != nil && p.t != nil {
		p.t.Fatal(err)
	}
}

// pollInterval is the time between two looks at the settings.
const pollInterval = 5 * time.Millisecond
