package cluster

import (
	"berth/structs"
	"slices"
)

// The algorithms of the scheduler.
const (
	AlgorithmBinpack = "binpack" // prefers the fuller of two nodes
	AlgorithmSpread  = "spread"  // prefers the emptier
)

// SchedulerConfiguration is the row of the scheduler's configuration. There is at most one. While there is
// none, DefaultSchedulerConfiguration counts.
type SchedulerConfiguration struct {
	SchedulerAlgorithm string
	PreemptionConfig   PreemptionConfig
	// MemoryOversubscriptionEnabled lets the memory_max of tasks count, in allocations that are placed from
	// then on.
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool // the servers accept no new versions of jobs and no dispatches
	PauseEvalBroker               bool // the leader processes no evaluations
	structs.Indexes
}

// PreemptionConfig selects the types of jobs that may displace allocations of jobs of a lower priority.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// DefaultSchedulerConfiguration returns the configuration that counts while none is stored.
func DefaultSchedulerConfiguration() SchedulerConfiguration {
	return SchedulerConfiguration{
		SchedulerAlgorithm: AlgorithmBinpack,
		PreemptionConfig:   PreemptionConfig{SystemSchedulerEnabled: true},
	}
}

// Enabled reports whether jobs of a type may displace allocations.
func (p *PreemptionConfig) Enabled(jobType string) bool {
	switch jobType {
	case structs.JobSystem:
		return p.SystemSchedulerEnabled
	case structs.JobSysBatch:
		return p.SysBatchSchedulerEnabled
	case structs.JobBatch:
		return p.BatchSchedulerEnabled
	case structs.JobService:
		return p.ServiceSchedulerEnabled
	}
	return false
}

// Exceeds reports whether jobs of a type may displace allocations that may not by another configuration.
func (p *PreemptionConfig) Exceeds(other PreemptionConfig) bool {
	types := []string{structs.JobSystem, structs.JobSysBatch, structs.JobBatch, structs.JobService}
	return slices.ContainsFunc(types, func(t string) bool {
		return p.Enabled(t) && !other.Enabled(t)
	})
}

// Any reports whether jobs of any type may displace allocations.
func (p *PreemptionConfig) Any() bool {
	return p.Exceeds(PreemptionConfig{})
}

// Canonicalize fills in the default algorithm.
func (c *SchedulerConfiguration) Canonicalize() {
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = AlgorithmBinpack
	}
}

// SchedulerConfigGet reads the configuration of the scheduler.
var SchedulerConfigGet = structs.Read[structs.QueryRequest, SchedulerConfigResponse](
	"Operator.SchedulerGetConfiguration")

// SchedulerConfigResponse has the configuration. Its indexes are 0 while none is stored.
type SchedulerConfigResponse struct {
	SchedulerConfig *SchedulerConfiguration
	structs.QueryMeta
}

// SchedulerConfigSet replaces the configuration of the scheduler.
var SchedulerConfigSet = structs.Write[SchedulerConfigRequest, SchedulerConfigSetResponse](
	"Operator.SchedulerSetConfiguration")

// SchedulerConfigRequest has the new configuration. With CAS it replaces only a configuration with the
// ModifyIndex of the new one; 0 requires that none is stored.
type SchedulerConfigRequest struct {
	Config SchedulerConfiguration
	CAS    bool
	structs.WriteOptions
}

// SchedulerConfigSetResponse reports whether the configuration was replaced. It is false only with CAS.
type SchedulerConfigSetResponse struct {
	Updated bool
	structs.WriteMeta
}
