package fencing

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/structs"
	"berth/structs/validate/field"
)

// The bounds of a device.
const (
	maxName       = 64  // bytes of its name, and of the name of an option
	maxOptions    = 64  // options, also of secrets
	maxMatch      = 64  // names
	maxStorage    = 256 // plugins; volumes likewise
	minTimeout    = time.Second
	maxTimeout    = 10 * time.Minute
	maxSecretFile = 4 << 10 // bytes
)

var (
	deviceName = field.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	optionName = field.Pattern(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// reserved are the options that the runner itself gives to an agent, and their older names.
var reserved = []string{"action", "option", "plug", "port", "nodename"}

// Validate names every fault, with its place in the agent's configuration.
func (d *Device) Validate() error {
	f := field.New("server.fencing %q", d.Name)
	f.Require(len(d.Name) <= maxName && deviceName().MatchString(d.Name),
		"the name must be of letters, digits, '.', '_' and '-', at most %d", maxName)
	d.checkAgent(f)
	d.checkOptions(f)
	d.checkMatch(f)
	checkText(f, "plug", d.Plug)
	d.checkScope(f)
	if d.Timeout != 0 && (d.Timeout < minTimeout || d.Timeout > maxTimeout) {
		f.Addf("timeout %s must be %s to %s, or left out for %s", d.Timeout, minTimeout, maxTimeout,
			DefaultTimeout)
	}

	return f.Err()
}

func (d *Device) checkAgent(f field.Errors) {
	f.CheckBytes("agent", len(d.Agent), structs.MaxText)
	isName := d.Agent != "" && !strings.Contains(d.Agent, "/") && d.Agent != "." && d.Agent != ".."
	f.Require(isPrintable(d.Agent) && (isName || filepath.IsAbs(d.Agent)),
		"agent %q must be the name of a program, such as fence_ipmilan, or an absolute path", d.Agent)
}

// checkOptions checks the options of both blocks together: a name in both would be given twice.
func (d *Device) checkOptions(f field.Errors) {
	count := len(d.Options) + len(d.SecretFiles)
	if f.AtMost("options, with those in secret_files", count, maxOptions) < count {
		return
	}

	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.Options)) {
		checkOption(f.At("options"), name, seen)
		checkSecret(f.At("options"), name, d.Options[name])
		checkText(f, "options: "+structs.Cut(name, structs.MaxQuoted), d.Options[name])
	}

	for _, name := range slices.Sorted(maps.Keys(d.SecretFiles)) {
		checkOption(f.At("secret_files"), name, seen)
		path := d.SecretFiles[name]
		f.Require(filepath.IsAbs(path) && field.IsText(path) && len(path) <= structs.MaxText,
			"secret_files: %q must have the absolute path of a file", name)
	}
}

// secretNames are parts of the names of options whose values are secrets.
var secretNames = []string{
	"passw", "passphrase", "secret", "token",
	"community", "api_key", "apikey", "credential",
	"hexadecimal_kg", // the key of a management controller
}

// checkSecret rejects a secret in the options: it would stay in the configuration, and the output of an agent
// that shows it would go to the rows of its run. The value of NAME_script or NAME_file is a path.
func checkSecret(f field.Errors, name, value string) {
	plain := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	isPath := strings.HasSuffix(plain, "_script") || strings.HasSuffix(plain, "_file")
	isSecret := slices.ContainsFunc(secretNames,
		func(part string) bool { return strings.Contains(plain, part) })
	isSecret = isSecret && !isPath || passwordInURL(value) != ""
	f.Require(!isSecret, "%q is a secret: write it to a file that root alone can read, and name that in secret_files", structs.Cut(name, structs.MaxQuoted))
}

// checkOption checks the name of an option. Agents take '-' and '_' for equal.
func checkOption(f field.Errors, name string, seen map[string]bool) {
	plain := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	switch {
	case len(name) > maxName || !optionName().MatchString(name):
		f.Addf("the name %q must be of letters, digits, '_' and '-', at most %d", name, maxName)
	case slices.Contains(reserved, plain):
		f.Addf("%q is set by berth: leave it out, and use plug for the name of the node", name)
	case seen[plain]:
		f.Addf("%q is there twice: leave one of the two out", name)
	}

	seen[plain] = true
}

// checkMatch checks the names. A misspelt one would make the device fence no node, and one that nodes tell
// would let a node choose its device.
func (d *Device) checkMatch(f field.Errors) {
	f = f.At("match")
	if f.AtMost("names", len(d.Match), maxMatch) < len(d.Match) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(d.Match)) {
		switch {
		case isPin(name) || name == nodeName || name == nodeID:
		case isToldByNode(name):
			f.Addf("%q is told by the node, %s pin.NAME", name, toldByNode)
		default:
			f.Addf("%q must be pin.NAME, node.unique.name or node.unique.id, without ${}", name)
		}
		f.CheckText("the value of "+structs.Cut(name, structs.MaxQuoted), d.Match[name])
	}
}

// storageAgents are agents that cut a node off from disks and leave its machine on.
var storageAgents = []string{"fence_scsi", "fence_mpath"}

// checkScope checks that a proof is about what its agent does.
func (d *Device) checkScope(f field.Errors) {
	switch d.Scope {
	case "", ScopePower:
		if agent := filepath.Base(d.Agent); slices.Contains(storageAgents, agent) {
			f.Addf("scope must be %q: %s cuts a node off from disks, and the machine stays on", ScopeStorage,
				agent)
		}

		f.Require(len(d.Plugins) == 0 && len(d.Volumes) == 0,
			"plugins and volumes are for scope %q alone: a machine that is off writes to no volume",
			ScopeStorage)
		return
	case ScopeStorage:
		f.Require(len(d.Plugins) > 0 || len(d.Volumes) > 0,
			"scope %q needs plugins or volumes: name those from which the agent cuts the node off",
			ScopeStorage)
	default:
		f.Addf("scope %q must be %q or %q", d.Scope, ScopePower, ScopeStorage)
	}

	for _, id := range field.FirstOf(f, "plugins", d.Plugins, maxStorage) {
		f.CheckName("plugins: the ID", id)
	}

	for _, volume := range field.FirstOf(f, "volumes", d.Volumes, maxStorage) {
		namespace, id, _ := strings.Cut(volume, "/")
		if namespace == "" || id == "" {
			f.Addf("volumes: %q must be NAMESPACE/ID, such as %q", volume, structs.DefaultNamespace+"/db")
			continue
		}

		f.CheckName("volumes: the namespace", namespace)
		f.CheckName("volumes: the ID", id)
	}
}

// toldByNode says why a name is rejected, and the remedy.
const toldByNode = field.Text("so a lost one could name another machine: pin the value for each node, with " +
	"berth node fence -pin NODE NAME=VALUE, and write")

// checkText checks a text that may refer to the node.
func checkText(f field.Errors, name, text string) {
	f.CheckBytes(name, len(text), structs.MaxText)
	f.Require(isPrintable(text), "%s must be text without line ends and other control characters", name)
	for _, ref := range reference().FindAllStringSubmatch(text, -1) {
		switch {
		case isPin(ref[1]) || ref[1] == nodeName:
		case isToldByNode(ref[1]):
			f.Addf("%s: ${%s} is told by the node, %s ${pin.NAME}", name, ref[1], toldByNode)
		default:
			f.Addf("%s: ${%s} must be ${pin.NAME} or ${node.unique.name}", name, ref[1])
		}
	}
	rest := reference().ReplaceAllString(text, "")
	f.Require(!structs.HasPlaceholder(rest), "%s: ${ needs a name and } after it", name)
}

// maxFencing is the most fencing blocks.
const maxFencing = 64

// ValidateAll joins the faults of all fencing blocks of a server.
func ValidateAll(devices []*Device) error {
	if len(devices) > maxFencing {
		return fmt.Errorf("server.fencing: there are %d blocks; expected at most %d", len(devices),
			maxFencing)
	}

	var faults []error
	seen := map[string]bool{}
	for _, d := range devices {
		faults = append(faults, d.Validate())
		if seen[d.Name] {
			faults = append(faults,
				fmt.Errorf("server.fencing %q: there are two of them; expected each name once",
					d.Name))
		}

		seen[d.Name] = true
	}

	return errors.Join(faults...)
}
