package catalog

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

// identityOf returns the identity that a program had. One that never answered has the one of its file's name.
func (c *Catalog) identityOf(file string) identity {
	var last identity
	text, err := os.ReadFile(c.identityPath(file))
	if err == nil {
		err = json.Unmarshal(text, &last)
	}

	// The file may be cut off by a crash. It is checked as an answer is.
	known := last.Kind == Driver || last.Kind == Device
	if err == nil && known && len(last.Name) <= maxName && wellFormed.MatchString(last.Name) {
		return last
	}
	return identityByFile(file)
}

// identityByFile returns the identity of a program by the usual names of files.
func identityByFile(file string) identity {
	if name, ok := strings.CutPrefix(file, "nomad-device-"); ok {
		return identity{Name: name, Kind: Device}
	}
	return identity{Name: strings.TrimPrefix(file, "nomad-driver-"), Kind: Driver}
}

// addAbsent adds a program that cannot be used now. Its Supervisor asks it again. If its name is taken, it
// has the name of its file, so that the node tells of it.
func (c *Catalog) addAbsent(file string, reason error) {
	as := c.identityOf(file)
	if c.plugins[as.Name] != nil {
		as.Name = identityByFile(file).Name
	}

	if c.plugins[as.Name] != nil {
		as.Name = file
	}

	// The log is the only trace of a program for which no name is left.
	c.logger.Error("plugin cannot be used now", "file", file, "name", as.Name, "error", reason)
	if c.plugins[as.Name] != nil || !wellFormed.MatchString(as.Name) || len(as.Name) > maxName {
		return
	}

	p := c.newPlugin(file)
	p.Name = as.Name
	p.Kind = as.Kind
	p.reason = reason
	p.absent = true
	c.plugins[as.Name] = p
}

// taken is the reason why a program cannot have that name.
func (c *Catalog) taken(name string) error {
	return structs.Preconditionf("%s has the name %q, too; remove one of the two programs and restart the agent", c.plugins[name].path, name)
}

// IsAbsent reports whether the program could not be used at the start of the agent.
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

	// The Supervisor of the plugin alone calls this, so p needs no lock.
	answered, err := c.ask(ctx, filepath.Base(p.path))
	if err != nil {
		return err
	}

	if answered.Name != p.Name && c.plugins[answered.Name] != nil {
		return c.taken(answered.Name)
	}

	if answered.Name != p.Name || answered.Kind != p.Kind {
		// The drivers and the devices of the node were made by name and kind at the start of the agent.
		return structs.Preconditionf("the program is the %s %q; restart the agent to use it",
			strings.ToLower(answered.Kind.String()), answered.Name)
	}

	p.config = answered.config
	p.digest = answered.digest
	return nil
}
