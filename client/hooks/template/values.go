package template

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"strings"

	"berth/client/allocrunner/taskdirs"
	"berth/client/hooks"
	"berth/consul/lookup"
	"berth/structs"
)

// values are all that the text of a template may read.
type values struct {
	// env has the environment of the process and the facts of the node, as they were at its start.
	env  map[string]string
	node func() *structs.Node
	dirs *taskdirs.Files
	// lookups has the services, keys and variables. The job has the namespace, and the task the variables.
	lookups   *lookup.Reader
	namespace string
	task      string         // the task as the owner of tokens: see outside.KeyOf
	vault     *structs.Vault // nil: the task has no token of Vault
	// consulTask is task, or "" for a task that reads from Consul with the token of the agent.
	consulTask string
	variables  []string // their paths
}

func newValues(env *hooks.TaskEnv) *values {
	// All hooks of the task share Variables.
	all := maps.Clone(env.Variables)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, env.Config.Env) // hooks have added some
	return &values{
		env:  all,
		node: env.Node,
		dirs: taskdirs.NewFiles(env),
	}
}

// variable is a value with its presence.
type variable struct {
	Value string
	Set   bool
}

// metaPrefix begins the names of the node's metadata, which an operator may change while the task runs.
const metaPrefix = "meta."

// lookUp returns a variable. live reports that it may change while the process runs.
func (v *values) lookUp(name string) (found variable, live bool) {
	key, live := strings.CutPrefix(name, metaPrefix)
	if live {
		value, ok := v.node().Meta[key]
		return variable{value, ok}, true
	}
	value, ok := v.env[name]
	return variable{value, ok}, false
}

// reads are the values that a text has read. They decide whether it has to be rendered again.
type reads struct {
	Data  string              // digest of the text itself, unless it is in a file
	Fixed map[string]variable // the environment of the process
	Live  map[string]variable // the node's metadata
	Files map[string]string   // digests by path
	// Answers come from Consul and from the servers.
	Answers []answer
}

// newReads returns the reads of a rendering that begins.
func newReads(t *structs.Template) *reads {
	return &reads{
		Data:  digest(t.EmbeddedTmpl),
		Fixed: map[string]variable{},
		Live:  map[string]variable{},
		Files: map[string]string{},
	}
}

func (r *reads) count() int { return len(r.Fixed) + len(r.Live) + len(r.Files) + len(r.Answers) }

// changed reports whether a value on the node has changed since the text read it.
func (r *reads) changed(t *structs.Template, v *values) bool {
	// An update of the job may bring another text.
	if r.Data != digest(t.EmbeddedTmpl) {
		return true
	}

	for name, was := range r.Live {
		now, _ := v.lookUp(name)
		if now != was {
			return true
		}
	}

	// Together the files have the bound of a rendering: the task may let them grow at any time.
	left := structs.MaxTemplateBytes
	for path, was := range r.Files {
		text, err := v.dirs.ReadFile(path, left)
		if digestOfFile(text, err) != was {
			return true
		}

		left -= len(text)
	}

	return false
}

// changes reports whether a value that the text has read can change while the process runs.
func (r *reads) changes() bool { return len(r.Live)+len(r.Files)+len(r.Answers) > 0 }

// digestOfFile is the digest of the text of a file, or of the error of its reader.
func digestOfFile(text string, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case err != nil:
		return "error " + digest(err.Error())
	}
	return digest(text)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
