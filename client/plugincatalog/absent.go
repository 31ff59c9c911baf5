package plugincatalog

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"berth/structs"
)

// misfit is a fault of the operator's configuration. It stops the start of the agent, and no other fault of a
// plugin does: a node must come up without a driver that nobody may use.
type misfit struct{ error }

// Unwrap returns the fault.
func (m misfit) Unwrap() error { return m.error }

// identity is the part of a plugin's answer by which the node has it. The last one is kept in a file,
// for a start of the agent at which the program does not answer.
type identity struct {
	Name string
	Kind Kind
}

// identityName is the name of that file, in the directory of the program's helpers.
const identityName = "identity"

func (c *Catalog) identityPath(file string) string {
	return filepath.Join(c.cfg.Sockets, file, identityName)
}

// keepIdentity writes the file. Without it the next agent guesses.
func (c *Catalog) keepIdentity(file string, p *Plugin) {
	text, err := json.Marshal(identity{Name: p.Name, Kind: p.Kind})
	if err == nil {
		err = os.WriteFile(c.identityPath(file), text, 0o600)
	}
	if err != nil {
		c.logger.Warn("failed to keep the name of a plugin", "file", file, "error", err)
	}
}

// identityOf returns the identity that a program had. One that never answered has that of its file, by
// the usual names of files.
func (c *Catalog) identityOf(file string) identity {
	var last identity
	text, err := os.ReadFile(c.identityPath(file))
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	known := last.Kind == Driver || last.Kind == Device
	if err == nil && known && len(last.Name) <= maxName && wellFormed.MatchString(last.Name) {
		return last
	}
	if name, ok := strings.CutPrefix(file, "nomad-device-"); ok {
		return identity{Name: name, Kind: Device}
	}
	return identity{Name: strings.TrimPrefix(file, "nomad-driver-"), Kind: Driver}
}

// addAbsent adds a program that does not answer now. Its Supervisor asks it again.
func (c *Catalog) addAbsent(file string, reason error) {
	as := c.identityOf(file)
	c.logger.Error("plugin cannot be used now", "file", file, "name", as.Name, "error", reason)
	if c.plugins[as.Name] != nil || !wellFormed.MatchString(as.Name) || len(as.Name) > maxName {
		return
	}
	c.plugins[as.Name] = &Plugin{
		Name:   as.Name,
		Kind:   as.Kind,
		path:   filepath.Join(c.cfg.Dir, file),
		args:   c.given(file).Args,
		reason: reason,
		absent: true,
	}
}

// IsAbsent reports whether the program did not answer at the start of the agent.
func (p *Plugin) IsAbsent() bool { return p.absent }

// askAgain asks a program that did not answer. The first call returns the reason of the agent's start:
// a program may take a minute to fail.
func (c *Catalog) askAgain(ctx context.Context, p *Plugin) error {
	if p.digest != "" {
		return nil
	}
	if err := p.reason; err != nil {
		p.reason = nil
		return err
	}
	answered, err := c.ask(ctx, filepath.Base(p.path))
	if err != nil {
		return err
	}
	if answered.Name != p.Name || answered.Kind != p.Kind {
		return structs.Preconditionf("the program is the %s %q; restart the agent to use it",
			strings.ToLower(answered.Kind.String()), answered.Name)
	}
	p.config = answered.config
	p.digest = answered.digest
	return nil
}
