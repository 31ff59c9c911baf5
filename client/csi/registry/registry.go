package registry

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
	"berth/structs"
)

// Instance is one half of one plugin as one allocation runs it.
type Instance struct {
	Kind       structs.CSIKind
	ID         string // the plugin's
	AllocID    string
	SocketPath string // on the host
	Provider   string // the plugin's own name of itself (CSI spec, GetPluginInfo)
	Version    string
	// FormerProvider is the name that the driver had before its vendor renamed it, "" for none.
	FormerProvider string
	// HostMountPath is the directory under which volumes are staged and published, as the host sees it;
	// PluginMountPath is the same directory as the plugin sees it. Paths sent to the plugin are below the
	// latter.
	HostMountPath   string
	PluginMountPath string
	// Tokens, TokensIn and RequiresRepublish come from the job of the plugin: see
	// structs.CSIPluginConfig.
	Tokens            []*structs.CSIToken
	TokensIn          string
	RequiresRepublish bool
	// JobIndex is the index of the last change of the job that runs the plugin.
	JobIndex uint64

	RegisteredAt int64 // UnixNano
}

// sameDriver reports whether the two are processes of one driver, which may have been renamed. An empty name
// is not known and excludes nothing.
func (i *Instance) sameDriver(o *Instance) bool {
	return i.Provider == "" || o.Provider == "" ||
		i.Provider == o.Provider ||
		i.FormerProvider == o.Provider || i.Provider == o.FormerProvider
}

// Key names one half of one plugin.
type Key struct {
	Kind structs.CSIKind
	ID   string
}

// Key names the half of the plugin that the instance serves.
func (i *Instance) Key() Key { return Key{i.Kind, i.ID} }

func (k Key) record() string {
	return store.Key(string(k.Kind), k.ID)
}

// stack holds the instances of one half of one plugin: newest first, never empty.
type stack struct{ Instances []*Instance }

func (s *stack) instances() []*Instance {
	if s == nil {
		return nil
	}
	return s.Instances
}

func (s *stack) front() *Instance {
	if s == nil {
		return nil
	}
	return s.Instances[0]
}

func (s *stack) indexOf(allocID string) int {
	return slices.IndexFunc(s.instances(), func(i *Instance) bool {
		return i.AllocID == allocID
	})
}

var stacks = store.NewTable[stack]("csi_registry")

// Registry is the registry of one node.
type Registry struct {
	db     *store.DB
	logger hclog.Logger

	write sync.Mutex // one change at a time, with its write to disk, during which mu is not held

	mu     sync.RWMutex
	stacks map[Key]*stack
	subs   map[*Subscription]struct{}
}

// New restores the registry from the node's records. It logs and leaves out a record that it cannot read: its
// plugin registers again when its task is found again.
func New(db *store.DB, logger hclog.Logger) *Registry {
	r := &Registry{
		db:     db,
		logger: logger.Named("dynamic_plugins"),
		stacks: map[Key]*stack{},
		subs:   map[*Subscription]struct{}{},
	}

	records, err := stacks.All(db, "")
	if err != nil {
		r.logger.Error("failed to read records of the plugin registry", "error", err)
	}

	for _, rec := range records {
		s := rec.Value
		if len(s.Instances) > 0 {
			r.stacks[s.front().Key()] = s
		}
	}

	return r
}

// Register makes an instance the serving one of its half of its plugin. An allocation that is registered
// already keeps its position in the stack, with its new information. An instance of another driver than those
// of the plugin's other allocations fails with ErrOtherDriver (duty B10).
func (r *Registry) Register(i *Instance) error {
	if i.Kind == "" || i.ID == "" ||
		i.AllocID == "" || i.SocketPath == "" {
		return structs.Invalidf("a plugin instance needs kind, id, allocation and socket: %+v", *i)
	}

	r.write.Lock()
	defer r.write.Unlock()
	if err := r.checkDriver(i); err != nil {
		return err
	}

	// Each registration has a value of its own: readers compare pointers to see whether it is another one.
	now := *i
	now.RegisteredAt = time.Now().UnixNano()
	old := r.stack(i.Key())
	next := &stack{Instances: slices.Clone(old.instances())}
	at := old.indexOf(i.AllocID)
	if at < 0 {
		next.Instances = slices.Insert(next.Instances, 0, &now)
	} else {
		same := now
		same.RegisteredAt = old.Instances[at].RegisteredAt
		// Nothing has changed: readers must not see another value.
		if reflect.DeepEqual(&same, old.Instances[at]) {
			return nil
		}

		next.Instances[at] = &now
	}

	err := stacks.Put(r.db, i.Key().record(), next)
	if err != nil {
		return err
	}

	r.setStack(i.Key(), next)
	return nil
}

// ErrOtherDriver means that two different drivers were started under one plugin ID.
var ErrOtherDriver = errors.New("a plugin ID belongs to one driver")

// checkDriver compares an instance with other allocations' instances, of both halves.
func (r *Registry) checkDriver(i *Instance) error {
	others := append(r.Stack(Key{structs.CSIKindController, i.ID}),
		r.Stack(Key{structs.CSIKindNode, i.ID})...)
	for _, o := range others {
		if o.AllocID != i.AllocID && !i.sameDriver(o) {
			return structs.Preconditionf(
				"plugin %q: not used: its driver is %q, but driver %q of allocation %s serves the "+
					"plugin on this node: %w; give this job another plugin ID, or stop the other one",
				i.ID, i.Provider, o.Provider,
				structs.ShortID(o.AllocID), ErrOtherDriver)
		}
	}
	return nil
}

// Deregister removes an allocation's registration. It does so also if the record cannot be written: the
// process has ended.
func (r *Registry) Deregister(k Key, allocID string) error {
	r.write.Lock()
	defer r.write.Unlock()
	return r.removeInstance(k, allocID)
}

// Retain removes every instance whose allocation keep rejects. The agent calls it at its start, when it knows
// its allocations.
func (r *Registry) Retain(keep func(allocID string) bool) error {
	r.write.Lock()
	defer r.write.Unlock()
	var errs []error
	for _, k := range r.sortedKeys() {
		for _, i := range r.Stack(k) {
			if !keep(i.AllocID) {
				errs = append(errs, r.removeInstance(k, i.AllocID))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Registry) removeInstance(k Key, allocID string) error {
	old := r.stack(k)
	at := old.indexOf(allocID)
	if at < 0 {
		return nil
	}
	instances := slices.Delete(slices.Clone(old.Instances), at, at+1)
	if len(instances) == 0 {
		err := stacks.Delete(r.db, k.record())
		r.setStack(k, nil)
		return err
	}
	next := &stack{Instances: instances}
	err := stacks.Put(r.db, k.record(), next)
	r.setStack(k, next)
	return err
}

// setStack replaces a stack and notifies subscribers if another instance serves.
func (r *Registry) setStack(k Key, next *stack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.stacks[k].front()
	now := next.front()
	if next == nil {
		delete(r.stacks, k)
	} else {
		r.stacks[k] = next
	}

	if before == now {
		return
	}

	for s := range r.subs {
		s.push(k)
	}

	r.logger.Info("plugin instance changed",
		"plugin_id", k.ID, "kind", k.Kind,
		"alloc_id", now.allocOrEmpty(),
		"before", before.allocOrEmpty())
}

func (i *Instance) allocOrEmpty() string {
	if i == nil {
		return ""
	}
	return i.AllocID
}

func (r *Registry) stack(k Key) *stack {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.stacks[k]
}

func (r *Registry) sortedKeys() []Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(r.stacks), func(a, b Key) int {
		return strings.Compare(a.record(), b.record())
	})
}

// Get returns the serving instance, nil if there is none.
func (r *Registry) Get(k Key) *Instance {
	return r.stack(k).front()
}

// Stack returns every instance of one half of a plugin, newest first.
func (r *Registry) Stack(k Key) []*Instance {
	return slices.Clone(r.stack(k).instances())
}

// Serving returns the serving instance of each half of each plugin, in the order of their keys.
func (r *Registry) Serving() []*Instance {
	var out []*Instance
	for _, k := range r.sortedKeys() {
		if i := r.Get(k); i != nil { // nil: it has left meanwhile
			out = append(out, i)
		}
	}
	return out
}

// Registered reports whether the allocation is in the stack, serving or not.
func (r *Registry) Registered(k Key, allocID string) bool {
	return r.stack(k).indexOf(allocID) >= 0
}
