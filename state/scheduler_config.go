package state

import (
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// SchedulerConfig returns the configuration of the scheduler: the stored one, or else the default. It is
// never nil.
func SchedulerConfig(tx Reader) *cluster.SchedulerConfiguration {
	stored := schema.SchedulerConfig.Get(tx, schema.OnlySchedulerConfig)
	if stored != nil {
		return stored
	}
	config := cluster.DefaultSchedulerConfiguration()
	return &config
}

// SchedulerAlgorithm returns the algorithm for the jobs of a node pool: its own, or else the cluster's.
func SchedulerAlgorithm(tx Reader, pool string) string {
	p := NodePool(tx, pool)
	if p != nil && p.SchedulerConfiguration != nil &&
		p.SchedulerConfiguration.SchedulerAlgorithm != "" {
		return p.SchedulerConfiguration.SchedulerAlgorithm
	}
	return SchedulerConfig(tx).SchedulerAlgorithm
}

// MemoryOversubscribed reports whether the memory_max of tasks counts for the jobs of a node pool: by its own
// setting, or else by the cluster's.
func MemoryOversubscribed(tx Reader, pool string) bool {
	p := NodePool(tx, pool)
	if p != nil && p.SchedulerConfiguration != nil &&
		p.SchedulerConfiguration.MemoryOversubscriptionEnabled != nil {
		return *p.SchedulerConfiguration.MemoryOversubscriptionEnabled
	}
	return SchedulerConfig(tx).MemoryOversubscriptionEnabled
}

// SchedulerConfigSet stores the configuration of the scheduler. If jobs of more types may displace
// allocations by it, it unblocks the evaluations that wait for capacity. The error is of kind conflict if the
// request demands another version than the stored one.
func SchedulerConfigSet(tx *WriteTx, p *cluster.SchedulerConfigRequest) error {
	config := p.Config
	config.Canonicalize()
	err := validate.SchedulerConfig(&config)
	if err != nil {
		return err
	}
	stored := SchedulerConfig(tx)
	if p.CAS && config.ModifyIndex != stored.ModifyIndex {
		return structs.Conflictf("the configuration of the scheduler has index %d, not %d",
			stored.ModifyIndex, config.ModifyIndex)
	}
	schema.SchedulerConfig.Put(tx, &config)
	if config.PreemptionConfig.Exceeds(stored.PreemptionConfig) {
		unblock.Preemption(tx)
	}
	return nil
}
