package jobspec

import (
	"github.com/hashicorp/hcl/v2"

	"berth/internal/conf"
	"berth/jobspec/locate"
	"berth/structs/cluster"
)

// The bodies of the files of namespaces and node pools.

type namespaceFile struct {
	Name         string            `hcl:"name,required"`
	Description  string            `hcl:"description"`
	Meta         map[string]string `hcl:"meta"`
	Quota        string            `hcl:"quota"`
	Capabilities *capabilities     `hcl:"capabilities,block"`
}

func (namespaceFile) Unsupported() string { return "consul node_pool_config vault" }

type capabilities struct {
	EnabledTaskDrivers  []string `hcl:"enabled_task_drivers"`
	DisabledTaskDrivers []string `hcl:"disabled_task_drivers"`
}

func (capabilities) Unsupported() string { return "disabled_network_modes enabled_network_modes" }

type nodePoolFile struct {
	Pool *nodePool `hcl:"node_pool,block"`
}

type nodePool struct {
	Name        string            `hcl:",label"`
	Description string            `hcl:"description"`
	Meta        map[string]string `hcl:"meta"`
	Scheduler   *schedulerConfig  `hcl:"scheduler_config,block"`
	Reboot      string            `hcl:"reboot"`
}

func (nodePool) Unsupported() string { return "node_identity_ttl" }

type schedulerConfig struct {
	SchedulerAlgorithm            string `hcl:"scheduler_algorithm"`
	MemoryOversubscriptionEnabled *bool  `hcl:"memory_oversubscription_enabled"`
}

// File is a specification that was read from a file.
type File[T any] struct {
	Content T

	locator locate.Locator
}

// Locate adds the position in the file to each fault, as locate.Locator.Locate.
func (f *File[T]) Locate(err error) error { return f.locator.Locate(err) }

// readFile reads a file that is a specification of a kind, or has it as a block.
func readFile[B, T any](filename string, src []byte, spec string, convert func(*B) T) (*File[T], error) {
	body, diags := conf.Parse(filename, src)
	if diags.HasErrors() {
		return nil, conf.Error(diags)
	}
	f := &File[T]{
		locator: locate.Locator{
			Body:  body,
			Spec:  spec,
			Unset: conf.NewUnset(),
		},
	}
	// A file has constants only, so there is no context.
	var decoded B
	diags = conf.DecodePartly(body, nil, &decoded, f.locator.Unset)
	f.Content = convert(&decoded)
	return f, conf.Error(diags)
}

// ReadNamespace reads the file of a namespace in HCL. Its results are like ReadVolume's.
func ReadNamespace(filename string, src []byte) (*File[*cluster.Namespace], error) {
	return readFile(filename, src, "namespace", (*namespaceFile).row)
}

// row converts the file. A namespace has no block around it.
func (f *namespaceFile) row() *cluster.Namespace {
	return &cluster.Namespace{
		Name:         f.Name,
		Description:  f.Description,
		Meta:         f.Meta,
		Quota:        f.Quota,
		Capabilities: (*cluster.NamespaceCapabilities)(f.Capabilities),
	}
}

// ReadNodePool reads the file of a node pool in HCL. Its results are like ReadVolume's.
func ReadNodePool(filename string, src []byte) (*File[*cluster.NodePool], error) {
	f, err := readFile(filename, src, "node_pool", (*nodePoolFile).row)
	switch {
	// A file without a pool may have other faults, which say more.
	case f == nil || f.Content != nil:
		return f, err
	case err == nil:
		at := f.locator.Body.MissingItemRange()
		err = conf.Error(hcl.Diagnostics{
			conf.Fault(at, "the file has no block node_pool \"NAME\""),
		})
	}
	return nil, err
}

// row returns the pool, nil for a file without one.
func (f *nodePoolFile) row() *cluster.NodePool {
	if f.Pool == nil {
		return nil
	}
	return &cluster.NodePool{
		Name:                   f.Pool.Name,
		Description:            f.Pool.Description,
		Meta:                   f.Pool.Meta,
		SchedulerConfiguration: (*cluster.NodePoolSchedulerConfiguration)(f.Pool.Scheduler),
		Reboot:                 f.Pool.Reboot,
	}
}
