package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"berth/api/operator"
	"berth/cli/command"
	"berth/structs"
)

// operatorScheduler has the verbs of berth operator scheduler.
var operatorScheduler = command.Command{
	Name:     "scheduler",
	Synopsis: "Show and change the configuration of the scheduler",
	Sub: []command.Command{
		{
			Name:     "get-config",
			Synopsis: "Show the configuration of the scheduler",
			Renders:  true,
			Run:      schedulerGetConfig,
			Examples: "berth operator scheduler get-config",
		},
		{
			Name:     "set-config",
			Synopsis: "Change the configuration of the scheduler",
			Help: `
Settings without an option stay as they are. Preemption lets jobs of a type
displace allocations of jobs whose priority is lower by ten or more. While
evaluations are paused, the leader places, moves and stops no allocation.`,
			Acts: true,
			Flags: []command.Flag{
				{
					Name:  "check-index",
					Kind:  command.Number,
					Value: "index",
					Usage: "Change only the configuration with this modify index",
				},
				{
					Name:  "scheduler-algorithm",
					Kind:  command.String,
					Value: "binpack|spread",
					Usage: "Prefer the fuller of two nodes, or the emptier",
				},
				onOff("memory-oversubscription", "Let tasks use memory up to their memory_max"),
				onOff("reject-job-registration", "Reject new jobs, new versions of jobs and dispatches"),
				onOff("pause-eval-broker", "Pause the processing of evaluations"),
				onOff("preempt-batch-scheduler", "Batch jobs may displace others"),
				onOff("preempt-service-scheduler", "Service jobs may displace others"),
				onOff("preempt-sysbatch-scheduler", "Jobs of type sysbatch may displace others"),
				onOff("preempt-system-scheduler", "System jobs may displace others"),
			},
			Run: schedulerSetConfig,
			Examples: "berth operator scheduler set-config -scheduler-algorithm spread\n" +
				"berth operator scheduler set-config -preempt-batch-scheduler=true",
		},
		{
			Name:     "get-num-schedulers",
			Synopsis: "Show how many loops of a server process evaluations",
			Help: `
It is one on each server, and only that of the leader works: nobody sets the
number. The server is the one that is called.`,
			Renders:  true,
			Run:      schedulerNumber,
			Examples: "berth operator scheduler get-num-schedulers",
		},
	},
}

func onOff(name, usage string) command.Flag {
	return command.Flag{Name: name, Kind: command.String, Value: "true|false", Usage: usage}
}

// schedulerGetConfig shows the index that schedulerSetConfig takes as -check-index.
func schedulerGetConfig(ctx context.Context, c *command.Call) error {
	config, _, err := operator.GetSchedulerConfig(ctx, c.API, nil)
	if err != nil {
		return err
	}

	return c.Show(config, func() error {
		preemption := config.PreemptionConfig
		c.Pairs(
			"Scheduler algorithm", config.SchedulerAlgorithm,
			"Memory oversubscription", strconv.FormatBool(config.MemoryOversubscriptionEnabled),
			"Reject job registration", strconv.FormatBool(config.RejectJobRegistration),
			"Pause eval broker", strconv.FormatBool(config.PauseEvalBroker),
			"Preemption by system", strconv.FormatBool(preemption.SystemSchedulerEnabled),
			"Preemption by service", strconv.FormatBool(preemption.ServiceSchedulerEnabled),
			"Preemption by batch", strconv.FormatBool(preemption.BatchSchedulerEnabled),
			"Preemption by sysbatch", strconv.FormatBool(preemption.SysBatchSchedulerEnabled),
			"Modify index", fmt.Sprint(config.ModifyIndex),
		)
		return nil
	})
}

// schedulerNumber shows the workers of the server that is called.
func schedulerNumber(ctx context.Context, c *command.Call) error {
	config, err := operator.SchedulerConfig(ctx, c.API, operator.Target{})
	if err != nil {
		return err
	}

	return c.Show(config, func() error {
		c.Pairs(
			"Server", config.ServerID,
			"Number of schedulers", strconv.Itoa(config.NumSchedulers),
			"Kinds of evaluations", strings.Join(config.EnabledSchedulers, ", "),
		)
		return nil
	})
}

// schedulerSetConfig changes the configuration that it has read. The servers reject the change if another has
// come between.
func schedulerSetConfig(ctx context.Context, c *command.Call) error {
	config, _, err := operator.GetSchedulerConfig(ctx, c.API, nil)
	if err != nil {
		return err
	}

	if isSet(c, "check-index") {
		config.ModifyIndex = uint64(c.Number("check-index"))
	}

	if isSet(c, "scheduler-algorithm") {
		config.SchedulerAlgorithm = c.String("scheduler-algorithm")
	}

	preemption := &config.PreemptionConfig
	err = setSwitches(c, map[string]*bool{
		"memory-oversubscription":    &config.MemoryOversubscriptionEnabled,
		"reject-job-registration":    &config.RejectJobRegistration,
		"pause-eval-broker":          &config.PauseEvalBroker,
		"preempt-batch-scheduler":    &preemption.BatchSchedulerEnabled,
		"preempt-service-scheduler":  &preemption.ServiceSchedulerEnabled,
		"preempt-sysbatch-scheduler": &preemption.SysBatchSchedulerEnabled,
		"preempt-system-scheduler":   &preemption.SystemSchedulerEnabled,
	})
	if err != nil {
		return err
	}

	updated, err := operator.SetSchedulerConfig(ctx, c.API, config, true)
	if err != nil {
		return err
	}

	if !updated {
		return structs.Conflictf("the configuration has another index than %d: "+
			"\"berth operator scheduler get-config\" shows it", config.ModifyIndex)
	}

	return c.Report(command.Changed{"Updated": "true"}, "The configuration of the scheduler is changed")
}

// isSet reports whether the command line has an option.
func isSet(c *command.Call, name string) bool { return len(c.Strings(name)) > 0 }

// setSwitches sets the settings whose options are on the command line.
func setSwitches(c *command.Call, settings map[string]*bool) (err error) {
	for name, setting := range settings {
		if !isSet(c, name) {
			continue
		}

		*setting, err = strconv.ParseBool(c.String(name))
		if err != nil {
			return structs.Invalidf("-%s is %q; expected true or false", name, c.String(name))
		}
	}

	return nil
}
