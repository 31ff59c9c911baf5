package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"berth/client/drivers/protocol/base"
	"berth/structs"
)

// ask starts a program, reads what it is, and ends it.
func (c *Catalog) ask(ctx context.Context, file string) (*Plugin, error) {
	p := c.newPlugin(file)
	err := c.checkPaths(file)
	if err != nil {
		return nil, misfit{err}
	}

	_, err = os.Stat(p.path)
	if err != nil {
		return nil, structs.Preconditionf("plugin_dir has no such program now: %w", err)
	}

	process, err := c.run(ctx, p)
	if err != nil {
		return nil, err
	}
	defer process.Kill()

	parsed, err := p.identify(ctx, base.NewBasePluginClient(process.Conn()))
	if err != nil {
		return nil, err
	}

	p.config, err = c.decode(parsed, file)
	if err != nil {
		return nil, err
	}

	c.keepIdentity(file, p)
	p.digest, err = p.computeDigest(c.topologyDigest())
	return p, err
}

// identify asks a process what it is, and returns the schema of its configuration. One timeout bounds both
// calls.
func (p *Plugin) identify(ctx context.Context, service base.BasePluginClient) (*Schema, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := service.PluginInfo(ctx, &base.PluginInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for its name: %w", err)
	}

	err = checkInfo(info)
	if err != nil {
		return nil, err
	}

	p.Name = info.GetName()
	p.Kind = info.GetType()
	p.Version = info.GetPluginVersion()
	answer, err := service.ConfigSchema(ctx, &base.ConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the schema of its configuration: %w", err)
	}

	return ParseSchema(answer.GetSpec())
}

// newPlugin returns the plugin of a file, of which nothing else is known.
func (c *Catalog) newPlugin(file string) *Plugin {
	p := &Plugin{path: filepath.Join(c.cfg.Dir, file)}
	if given := c.given(file); given != nil {
		p.args = given.Args
	}
	return p
}

// decode checks the operator's block. A program without a block has the defaults of its schema. If that wants
// a setting, the program cannot be used; an unused copy of a program may lie beside it.
func (c *Catalog) decode(parsed *Schema, file string) ([]byte, error) {
	given := c.given(file)
	if given == nil {
		config, err := parsed.Decode(nil)
		if err != nil {
			return nil, fmt.Errorf("there is no block plugin %q { config { } }: %w", file, err)
		}
		return config, nil
	}
	config, err := parsed.Decode(given.Config)
	if err != nil {
		return nil, misfit{err}
	}
	return config, nil
}

const (
	// maxSocketPath is the longest path of a unix socket.
	maxSocketPath = 107
	// longestDir and longestSocket are names that end in the largest random number.
	longestDir    = "/" + socketDir + "4294967295"
	longestSocket = "/plugin4294967295"
)

// checkPaths reports a plugin that could not listen, because the path of its socket would be too long.
func (c *Catalog) checkPaths(file string) error {
	length := len(c.cfg.Sockets) + max(len(longestDir), len("/")+len(file)) + len(longestSocket)
	if length > maxSocketPath {
		return structs.Invalidf("data_dir: its path is %d bytes too long for the sockets of this plugin",
			length-maxSocketPath)
	}
	return nil
}

const (
	maxName    = 128 // bytes of the name of a plugin, and of its version
	maxVersion = 128
)

// wellFormed are the names that directories, records and attributes can have.
var wellFormed = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// checkInfo bounds what comes from a program: the name becomes a part of paths, keys and attributes.
func checkInfo(info *base.PluginInfoResponse) error {
	name := info.GetName()
	switch {
	case len(name) > maxName:
		return structs.Invalidf("its name has %d bytes, at most %d are allowed", len(name), maxName)
	case !wellFormed.MatchString(name):
		return structs.Invalidf("its name is %q: letters, digits, and then also '_', '-' and '.' are allowed",
			name)
	case len(info.GetPluginVersion()) > maxVersion:
		return structs.Invalidf("its version has %d bytes, at most %d are allowed",
			len(info.GetPluginVersion()), maxVersion)
	case info.GetType() != Driver && info.GetType() != Device:
		return structs.Invalidf("%q is of type %s: only drivers and devices are known", name, info.GetType())
	case !slices.Contains(info.GetPluginApiVersions(), apiVersion):
		return structs.Invalidf("%q speaks versions %q of its interface, berth speaks %s",
			name, info.GetPluginApiVersions(), apiVersion)
	}
	return nil
}

// computeDigest returns a digest that changes when the program is replaced or configured anew, or
// the processors differ.
func (p *Plugin) computeDigest(topology string) (string, error) {
	info, err := os.Stat(p.path)
	if err != nil {
		return "", err
	}

	// A copy over the program may keep its size and its time, but not the inode, unless it is written into
	// the old file.
	inode := uint64(0)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = st.Ino
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %d %d %d %q", p.path, p.args, p.config,
		inode, info.Size(), info.ModTime().UnixNano(), topology)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// run starts a process without a configuration.
func (c *Catalog) run(ctx context.Context, p *Plugin) (*Process, error) {
	// Helpers of a driver, which outlive its process, have their sockets here. So has the driver itself if it
	// was built with an older library.
	shared := filepath.Join(c.cfg.Sockets, filepath.Base(p.path))
	err := os.MkdirAll(shared, 0o700)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+shared)
	process, err := start(ctx, cmd, c.cfg.Sockets, c.logger.Named(filepath.Base(p.path)))
	if err != nil {
		return nil, err
	}

	// While the plugin is asked there is no digest yet: that process is never recorded.
	process.reattach.Digest = p.digest
	return process, nil
}
