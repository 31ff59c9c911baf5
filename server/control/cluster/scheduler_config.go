package cluster

import "berth/structs/cluster"

// SchedulerSettings are the `default_scheduler_config` block of a server. A setting that it leaves out has
// its default.
//
// It has the block of a server with the first configuration of the scheduler, which the
// first leader stores.
type SchedulerSettings struct {
	Algorithm              string     `hcl:"scheduler_algorithm"`
	MemoryOversubscription bool       `hcl:"memory_oversubscription_enabled"`
	RejectJobRegistration  bool       `hcl:"reject_job_registration"`
	PauseEvalBroker        bool       `hcl:"pause_eval_broker"`
	Preemption             Preemption `hcl:"preemption_config,block"`
}

// Preemption is the `preemption_config` block of SchedulerSettings.
type Preemption struct {
	System   bool `hcl:"system_scheduler_enabled"`
	SysBatch bool `hcl:"sysbatch_scheduler_enabled"`
	Batch    bool `hcl:"batch_scheduler_enabled"`
	Service  bool `hcl:"service_scheduler_enabled"`
}

// DefaultSchedulerSettings returns the settings of a server without the block.
func DefaultSchedulerSettings() SchedulerSettings {
	d := cluster.DefaultSchedulerConfiguration()
	return SchedulerSettings{
		Algorithm: d.SchedulerAlgorithm,
		Preemption: Preemption{
			System:   d.PreemptionConfig.SystemSchedulerEnabled,
			SysBatch: d.PreemptionConfig.SysBatchSchedulerEnabled,
			Batch:    d.PreemptionConfig.BatchSchedulerEnabled,
			Service:  d.PreemptionConfig.ServiceSchedulerEnabled,
		},
	}
}

// Row returns the settings as the row that the first leader stores.
func (c *SchedulerSettings) Row() cluster.SchedulerConfiguration {
	return cluster.SchedulerConfiguration{
		SchedulerAlgorithm:            c.Algorithm,
		MemoryOversubscriptionEnabled: c.MemoryOversubscription,
		RejectJobRegistration:         c.RejectJobRegistration,
		PauseEvalBroker:               c.PauseEvalBroker,
		PreemptionConfig: cluster.PreemptionConfig{
			SystemSchedulerEnabled:   c.Preemption.System,
			SysBatchSchedulerEnabled: c.Preemption.SysBatch,
			BatchSchedulerEnabled:    c.Preemption.Batch,
			ServiceSchedulerEnabled:  c.Preemption.Service,
		},
	}
}
