package fencing

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/state"
)

func TestFence_OffThenStatusOffIsTheProof(t *testing.T) {
	t.Parallel()
	d := Device{Name: "d", Agent: agentOf(t, `echo "$action of $plug"; `+offThenOff)}
	got := d.Fence(t.Context(), node())
	want := Result{Action: "status", ExitCode: 2, Output: "off of web1\nstatus of web1\n", Proved: true}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFence_AnythingElseProvesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   Result
	}{
		"off fails": {`[ $action = off ] && exit 1; exit 2`,
			Result{Action: "off", ExitCode: 1, Reason: "off: the agent ended with exit code 1; expected 0"}},
		"off says off": {`exit 2`,
			Result{Action: "off", ExitCode: 2, Reason: "off: the agent ended with exit code 2; expected 0"}},
		"status says on": {`exit 0`,
			Result{Action: "status", ExitCode: 0, Reason: "status: the agent ended with exit code 0; expected 2"}},
		"status fails": {`[ $action = off ] && exit 0; exit 1`,
			Result{Action: "status", ExitCode: 1, Reason: "status: the agent ended with exit code 1; expected 2"}},
		"a signal": {`kill -KILL $$`,
			Result{Action: "off", ExitCode: -1, Reason: "off: the agent ended by a signal: signal: killed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Device{Name: "d", Agent: agentOf(t, "echo words\n"+c.script)}
			got := d.Fence(t.Context(), node())
			if got.Action == "off" && got.Output != "words\n" ||
				got.Action == "status" && got.Output != "words\nwords\n" {
				t.Errorf("the words of the agent are %q", got.Output)
			}
			got.Output = ""
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFence_GivesTheOptionsByStandardInputAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "fence_test")
	script := "#!/bin/sh\ncat >" + dir + "/input.$$\necho $# >" + dir + "/count\n" +
		"tr '\\0' '\\n' </proc/$$/environ >" + dir + "/environ\npwd >" + dir + "/pwd\n" +
		"mv " + dir + "/input.$$ " + dir + "/input\nexit 1\n"
	writeProgram(t, path, script)
	d := Device{
		Name:        "d",
		Agent:       path,
		Options:     map[string]string{"ip": "bmc-${node.unique.name}.example", "lanplus": "1"},
		SecretFiles: map[string]string{"password": secretFile(t, "hunter2\n")},
		Plug:        "${pin.vmid}",
	}
	d.Fence(t.Context(), node())
	for name, want := range map[string]string{
		"input": "ip=bmc-web1.example\nlanplus=1\npassword=hunter2\nplug=vm-7\nnodename=vm-7\naction=off\n",
		"count": "0\n",
		"pwd":   "/\n",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}

	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(environ)) {
		if !strings.HasPrefix(line, "PATH=/") && line != "LANG=C\n" {
			t.Errorf("the environment has %q", line)
		}
	}
}

func TestFence_RunsNothingWithoutThePlug(t *testing.T) {
	t.Parallel()
	for plug, reason := range map[string]string{
		"${pin.nothing}": `off: plug: node 6f1d7b8e has no pin "nothing": ` +
			"berth node fence -pin 6f1d7b8e nothing=VALUE",
		"${pin.lines}":                `off: plug: node 6f1d7b8e has control characters in the pin "lines": pin it again`,
		" ":                           "off: plug: it is empty",
		"${node.class}${pin.nothing}": "off: plug: ${node.class} is no pin and no bound name",
	} {
		for _, inOption := range []bool{false, true} {
			if inOption && plug == " " {
				continue
			}
			ran := filepath.Join(t.TempDir(), "ran")
			d := Device{Name: "d", Agent: agentOf(t, "touch "+ran+"\n"+offThenOff), Plug: plug}
			want := Result{Action: "off", ExitCode: -1, Reason: reason}
			if inOption {
				d.Options = map[string]string{"ip": plug}
				want.Reason = strings.Replace(reason, "plug:", "options: ip:", 1)
			}
			if got := d.Fence(t.Context(), node()); got != want {
				t.Errorf("%q: got %+v, want %+v", plug, got, want)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Errorf("%q: the agent ran", plug)
			}
		}
	}
}

// TestFence_BelievesNoNameThatNoTokenBound: the name of a node is its own word unless its join token bound
// it. Then its plug is pinned, with or without a plug in the configuration.
func TestFence_BelievesNoNameThatNoTokenBound(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	d := Device{Name: "d", Agent: agentOf(t, "touch "+ran+"\n"+offThenOff)}
	want := `plug: node 6f1d7b8e has no pin "plug": berth node fence -pin 6f1d7b8e plug=VALUE, with its name at ` +
		"the device; that of the node is its own word: no join token bound its name"
	if got := d.Matches(unnamed()); got != want {
		t.Errorf("without a plug: got %q, want %q", got, want)
	}
	if got := d.Fence(t.Context(), unnamed()); got.Proved || got.Reason != "off: "+want {
		t.Errorf("without a plug: got %+v", got)
	}

	d.Plug = "${node.unique.name}"
	got := d.Fence(t.Context(), unnamed())
	wantParts(t, got.Reason, "off: plug: the name of node 6f1d7b8e is its own word: no join token bound its name",
		"-node-name NAME")
	if _, err := os.Stat(ran); err == nil || got.Proved {
		t.Errorf("the agent ran: %+v", got)
	}
}

func TestFence_TakesThePinForThePlug(t *testing.T) {
	t.Parallel()
	d := Device{Name: "d", Agent: agentOf(t, `echo "$action of $plug"; `+offThenOff)}
	for _, target := range []*state.FenceTarget{node(), unnamed()} {
		target.Pins["plug"] = "vm-8"
		got := d.Fence(t.Context(), target)
		if !got.Proved || got.Output != "off of vm-8\nstatus of vm-8\n" {
			t.Errorf("%q: got %+v", target.Name, got)
		}
	}
}

// A password that has changed counts without a restart of the server.
func TestFence_ReadsItsSecretsAtEachRun(t *testing.T) {
	t.Parallel()
	file := secretFile(t, "former\n")
	d := Device{
		Name:        "d",
		Agent:       agentOf(t, `[ "$password" = present ] || exit 1; `+offThenOff),
		SecretFiles: map[string]string{"password": file},
	}
	if got := d.Fence(t.Context(), node()); got.Proved || got.ExitCode != 1 {
		t.Errorf("with the former secret: got %+v", got)
	}
	err := os.WriteFile(file, []byte("present\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Fence(t.Context(), node()); !got.Proved {
		t.Errorf("with the present secret: got %+v", got)
	}
}

func TestFence_NeedsPrivateSecrets(t *testing.T) {
	t.Parallel()
	open := secretFile(t, "hunter2")
	pipe := filepath.Join(t.TempDir(), "pipe") // without a writer
	err := errors.Join(os.Chmod(open, 0o640), unix.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for file, reason := range map[string]string{
		"/nonexistent/secret":                    "no such file",
		secretFile(t, ""):                        "it is empty",
		secretFile(t, "\n"):                      "it is empty",
		secretFile(t, "hunter2\nhunter3\n"):      "more than one line",
		secretFile(t, strings.Repeat("x", 4097)): "more than 4096 bytes",
		open:                                     "its mode is 0640: chmod 600",
		pipe:                                     "it is no plain file",
		t.TempDir():                              "it is no plain file",
		secretFile(t, "a\xff"):                   "control characters",
		secretFile(t, strings.Repeat("y", 4096)+"\n\n\n"): "more than 4096 bytes",
	} {
		d := Device{Name: "d", Agent: agentOf(t, offThenOff), SecretFiles: map[string]string{"password": file}}
		got := d.Fence(t.Context(), node())
		wantParts(t, got.Reason, "off: secret_files: password: ", reason)
		if got.Proved || got.ExitCode != -1 || strings.Contains(got.Reason, "hunter") {
			t.Errorf("%s: got %+v", file, got)
		}
	}
}

func TestFence_FindsItsAgent(t *testing.T) {
	t.Setenv("PATH", "relative:"+filepath.Dir(agentOf(t, offThenOff)))
	d := Device{Name: "d", Agent: "fence_test"}
	if got := d.Fence(t.Context(), node()); !got.Proved {
		t.Errorf("in the PATH: got %+v", got)
	}

	t.Chdir(t.TempDir())
	err := os.Mkdir("relative", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, "relative/fence_test", readInput+offThenOff)
	t.Setenv("PATH", "relative")
	got := d.Fence(t.Context(), node())
	wantParts(t, got.Reason, `agent "fence_test" is not in `, "/usr/sbin", "install it on this server")
	d.Agent = "/nonexistent/fence_test"
	got = d.Fence(t.Context(), node())
	wantParts(t, got.Reason, "/nonexistent/fence_test")
	d.Agent = "fsfreeze" // of /usr/sbin, without any options
	got = d.Fence(t.Context(), node())
	if got.ExitCode != 1 {
		t.Errorf("in sbin: got %+v", got)
	}
}

func TestFence_StartsNothingAfterItsContext(t *testing.T) {
	t.Parallel()
	d := Device{Name: "d", Agent: filepath.Join(t.TempDir(), "fence_test")}
	writeProgram(t, d.Agent, "#!/nonexistent\n") // a start fails
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := Result{Action: "off", ExitCode: -1, Reason: "off: the server has stopped the agent"}
	if got := d.Fence(ctx, node()); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got := d.Fence(t.Context(), node())
	wantParts(t, got.Reason, "off: starting the agent: ")
}

func TestMonitor_AsksForNoNode(t *testing.T) {
	t.Parallel()
	d := Device{Name: "d", Agent: agentOf(t, `echo "$action $plug"; [ $action = monitor ] || exit 7`)}
	want := Result{Action: "monitor", Output: "monitor \n"}
	if got := d.Monitor(t.Context(), nil); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}

	d.Agent = agentOf(t, `exit 2`)
	got := d.Monitor(t.Context(), nil)
	wantParts(t, got.Reason, "monitor: the agent ended with exit code 2; expected 0")
	d.Options = map[string]string{"ip": "${pin.bmc}"}
	got = d.Monitor(t.Context(), nil)
	wantParts(t, got.Reason, "monitor: options: ip: ${pin.bmc} needs a node")
}
