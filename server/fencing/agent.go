package fencing

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/state"
)

// fenceAgent is the program of a device with its input for one node.
type fenceAgent struct {
	program string
	options []string // lines of key=value
	timeout time.Duration
	output  *output
}

// prepare finds the program, and makes its input but for the action: for a node, or for none.
func (d *Device) prepare(t *state.FenceTarget) (*fenceAgent, error) {
	program, err := d.findProgram()
	if err != nil {
		return nil, err
	}

	a := &fenceAgent{
		program: program,
		timeout: d.timeout(),
		output:  &output{},
	}

	for _, name := range slices.Sorted(maps.Keys(d.Options)) {
		value, err := expand(d.Options[name], t)
		if err != nil {
			return nil, fmt.Errorf("options: %s: %w", name, err)
		}

		a.add(name, value)
	}

	for _, name := range slices.Sorted(maps.Keys(d.SecretFiles)) {
		path := d.SecretFiles[name]
		secret, err := readWithin(a.timeout, func() (string, error) { return readSecret(path) })
		if err != nil {
			return nil, fmt.Errorf("secret_files: %s: %w", name, err)
		}

		// The output knows the secret before the agent does.
		a.output.secrets = append(a.output.secrets, partsOf(secret)...)
		a.add(name, secret)
	}

	if t == nil {
		return a, nil
	}

	return a, d.addPlug(a, t)
}

// addPlug names the node to the agent. Some agents read plug, others nodename, and some prefer the one and
// some the other to it. Both are the same, so that no agent acts on another machine than the plug.
func (d *Device) addPlug(a *fenceAgent, t *state.FenceTarget) error {
	plug, err := d.plug(t)
	if err != nil {
		return err
	}

	a.add("plug", plug)
	a.add("nodename", plug)
	return nil
}

func (a *fenceAgent) add(name, value string) {
	a.options = append(a.options, name+"="+value)
}

// input is the standard input for an action. The last line with a name counts.
func (a *fenceAgent) input(action string) string {
	lines := append(slices.Clone(a.options), "action="+action)
	return strings.Join(lines, "\n") + "\n"
}

// environment is the whole environment of an agent.
func environment() []string {
	return []string{"PATH=" + searchPath(), "LANG=C"}
}

// searchPath has the directories of programs, also where the PATH of the server lacks sbin.
func searchPath() string {
	dirs := []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin"}
	own := filepath.SplitList(os.Getenv("PATH"))
	return strings.Join(slices.Concat(own, dirs), string(filepath.ListSeparator))
}

// findProgram returns the absolute path of the agent.
func (d *Device) findProgram() (string, error) {
	if filepath.IsAbs(d.Agent) {
		return exec.LookPath(d.Agent)
	}

	for _, dir := range filepath.SplitList(searchPath()) {
		if !filepath.IsAbs(dir) {
			continue // it depends on the directory in which the server was started
		}

		path, err := exec.LookPath(filepath.Join(dir, d.Agent))
		if err == nil {
			return path, nil
		}
	}

	return "", fmt.Errorf("agent %q is not in %s: install it on this server, as the package fence-agents does",
		d.Agent, searchPath())
}
