package connectproxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"time"

	"berth/consul/mesh"
	"berth/structs"
)

// The kinds of proxies.
const (
	KindEnvoy  = mesh.ProxyEnvoy
	KindConsul = "consul"
)

// program is a file that runs a proxy. Another file in its place is another program.
type program struct {
	kind    string
	path    string // absolute, without links
	changed time.Time
	size    int64
}

// findProgram looks for the proxy of the node: Envoy, or Consul's own.
func (d *Driver) findProgram() (program, error) {
	p, err := find(KindEnvoy, d.cfg.EnvoyPath)
	// An operator who names Envoy wants no other proxy in its place.
	if err == nil || d.cfg.EnvoyPath != "" {
		return p, err
	}
	p, err = find(KindConsul, d.cfg.ConsulPath)
	if err != nil && d.cfg.ConsulPath == "" {
		err = errors.New("the node has neither envoy nor consul in the PATH of the agent: " +
			"install one of them, or set consul.envoy_path or consul.proxy_path")
	}
	return p, err
}

// find looks for a program at its configured path, "" for the PATH of the agent.
func find(kind, configured string) (program, error) {
	path, err := osexec.LookPath(cmp.Or(configured, kind))
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // the root of a task may lack the place of a link
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}

	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	if err != nil {
		return program{}, fmt.Errorf("the program %s: %w", cmp.Or(configured, kind), err)
	}

	return program{
		kind:    kind,
		path:    path,
		changed: info.ModTime(),
		size:    info.Size(),
	}, nil
}

// The bounds of a question for the version of a program.
const (
	versionTimeout = 8 * time.Second
	maxVersion     = 4 << 10
)

// versionText matches a version in what a program says about itself.
var versionText = regexp.MustCompile(`[v/](\d+\.\d+\.\d+[-+.0-9A-Za-z]*)`)

// version returns the version of a program. It asks each program once.
func (d *Driver) version(ctx context.Context, p program) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A fingerprint comes every 30 seconds, and a start of the program for each would cost more than it
	// tells.
	if v := d.versions[p]; v != "" {
		return v, nil
	}

	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	argument := "version"
	if p.kind == KindEnvoy {
		argument = "--version"
	}

	var out limited
	cmd := osexec.CommandContext(ctx, p.path, argument)
	cmd.Stdout = &out
	// A child that keeps the output open must not hold the fingerprint up after the program is killed.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", p.path, argument, err)
	}

	found := versionText.FindStringSubmatch(out.text.String())
	if found == nil {
		return "", fmt.Errorf("%s %s: it names no version", p.path, argument)
	}

	// A program that was replaced does not come back.
	clear(d.versions)
	d.versions[p] = structs.Cut(found[1], structs.MaxName)
	return d.versions[p], nil
}

// limited keeps the begin of what is written to it.
type limited struct{ text bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	_, _ = l.text.Write(p[:min(len(p), maxVersion-l.text.Len())])
	return len(p), nil
}
