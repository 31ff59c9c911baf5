package jobspec

import (
	"berth/internal/hclconf"
	"berth/structs"
)

// The bodies of the files of namespaces and node pools.

type namespaceFile struct {
	Name         string            `hcl:"name,required"`
	Description  string            `hcl:"description"`
	Meta         map[string]string `hcl:"meta"`
	Capabilities *capabilities     `hcl:"capabilities,block"`
}

func (namespaceFile) Unsupported() string { return "consul node_pool_config quota vault" }

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
}

func (nodePool) Unsupported() string { return "node_identity_ttl" }

type schedulerConfig struct {
	SchedulerAlgorithm            string `hcl:"scheduler_algorithm"`
	MemoryOversubscriptionEnabled *bool  `hcl:"memory_oversubscription_enabled"`
}

// ParseNamespace reads the file of a namespace in HCL. An error is like that of ParseVolume.
func ParseNamespace(filename string, src []byte) (*structs.Namespace, error) {
	var f namespaceFile
	err := decodeFile(filename, src, &f)
	if err != nil {
		return nil, err
	}
	return &structs.Namespace{
		Name:         f.Name,
		Description:  f.Description,
		Meta:         f.Meta,
		Capabilities: (*structs.NamespaceCapabilities)(f.Capabilities),
	}, nil
}

// ParseNodePool reads the file of a node pool in HCL. An error is like that of ParseVolume.
func ParseNodePool(filename string, src []byte) (*structs.NodePool, error) {
	var f nodePoolFile
	err := decodeFile(filename, src, &f)
	if err != nil {
		return nil, err
	}
	if f.Pool == nil {
		return nil, structs.Invalidf("%s:1,1: the file has no block node_pool \"NAME\"", filename)
	}
	return &structs.NodePool{
		Name:                   f.Pool.Name,
		Description:            f.Pool.Description,
		Meta:                   f.Pool.Meta,
		SchedulerConfiguration: (*structs.NodePoolSchedulerConfiguration)(f.Pool.Scheduler),
	}, nil
}

func decodeFile(filename string, src []byte, into any) error {
	body, diags := hclconf.Parse(filename, src)
	if !diags.HasErrors() {
		diags = hclconf.DecodeBody(body, nil, into)
	}
	return hclconf.Error(diags)
}
