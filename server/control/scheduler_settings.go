package server

import "berth/structs"

// SchedulerConfig is the `default_scheduler_config` block of a server. A setting that it leaves out has its
// default.
type SchedulerConfig struct {
	Algorithm              string     `hcl:"scheduler_algorithm"`
	MemoryOversubscription bool       `hcl:"memory_oversubscription_enabled"`
	RejectJobRegistration  bool       `hcl:"reject_job_registration"`
	PauseEvalBroker        bool       `hcl:"pause_eval_broker"`
	Preemption             Preemption `hcl:"preemption_config,block"`
}

// Preemption is the `preemption_config` block of SchedulerConfig.
type Preemption struct {
	System   bool `hcl:"system_scheduler_enabled"`
	SysBatch bool `hcl:"sysbatch_scheduler_enabled"`
	Batch    bool `hcl:"batch_scheduler_enabled"`
	Service  bool `hcl:"service_scheduler_enabled"`
}

func defaultSchedulerConfig() SchedulerConfig {
	d := structs.DefaultSchedulerConfiguration()
	return SchedulerConfig{
		Algorithm: d.SchedulerAlgorithm,
		Preemption: Preemption{
			System:   d.PreemptionConfig.SystemSchedulerEnabled,
			SysBatch: d.PreemptionConfig.SysBatchSchedulerEnabled,
			Batch:    d.PreemptionConfig.BatchSchedulerEnabled,
			Service:  d.PreemptionConfig.ServiceSchedulerEnabled,
		},
	}
}

// row returns the configuration as the row that the first leader stores.
func (c *SchedulerConfig) row() structs.SchedulerConfiguration {
	return structs.SchedulerConfiguration{
		SchedulerAlgorithm:            c.Algorithm,
		MemoryOversubscriptionEnabled: c.MemoryOversubscription,
		RejectJobRegistration:         c.RejectJobRegistration,
		PauseEvalBroker:               c.PauseEvalBroker,
		PreemptionConfig: structs.PreemptionConfig{
			SystemSchedulerEnabled:   c.Preemption.System,
			SysBatchSchedulerEnabled: c.Preemption.SysBatch,
			BatchSchedulerEnabled:    c.Preemption.Batch,
			ServiceSchedulerEnabled:  c.Preemption.Service,
		},
	}
}
