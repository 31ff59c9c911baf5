package validate

import (
	"encoding/json"
	"slices"

	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate/field"
)

var (
	namespaceForm = field.Pattern(`^[a-zA-Z0-9-]{1,128}$`)
	nodePoolForm  = field.Pattern(`^[a-zA-Z0-9_-]{1,128}$`)
)

// Namespace returns every fault of a namespace, each with its path.
func Namespace(n *cluster.Namespace) error {
	f := field.New("")
	f.Require(n.Name != "", "namespace: name is required")
	f.Require(n.Name == "" || namespaceForm().MatchString(n.Name),
		"namespace: name %q must be 1 to 128 letters, digits and dashes", n.Name)

	f = f.At("namespace %q", n.Name)
	checkDescription(f, n.Description)
	f.CheckMeta("meta", n.Meta)
	if c := n.Capabilities; c != nil {
		f := f.At("capabilities")
		checkDrivers(f, "enabled_task_drivers", c.EnabledTaskDrivers)
		checkDrivers(f, "disabled_task_drivers", c.DisabledTaskDrivers)
	}

	return f.Err()
}

// checkNamespace checks the name of a namespace that a job or a volume is in. Whether it exists is for the
// state to decide.
func checkNamespace(f field.Errors, ns string) {
	f.Require(namespaceForm().MatchString(ns), "namespace %q must be 1 to 128 letters, digits and dashes", ns)
}

// checkDescription checks the description of a namespace or node pool.
func checkDescription(f field.Errors, s string) {
	f.CheckBytes("description", len(s), structs.MaxDescription)
	f.Require(field.IsText(s), "description must be text in UTF-8 without NUL")
}

// checkDrivers checks the names in a list of task drivers. A driver need not be known: each node has its own.
func checkDrivers(f field.Errors, list string, names []string) {
	for _, name := range field.FirstOf(f, list, names, structs.MaxListed) {
		f.CheckName(list+": name", name)
	}
}

// NodePool returns every fault of a node pool, each with its path.
func NodePool(p *cluster.NodePool) error {
	f := field.New("")
	f.Require(p.Name != "", "node_pool: name is required")
	f.Require(p.Name == "" || nodePoolForm().MatchString(p.Name),
		"node_pool: name %q must be 1 to 128 letters, digits, dashes and underscores", p.Name)
	f.Require(!cluster.BuiltInNodePool(p.Name), "node_pool: name %q is built in and cannot be changed", p.Name)
	f = f.At("node_pool %q", p.Name)
	f.Require(p.Reboot == "" || p.Reboot == cluster.RebootAsk,
		"reboot has another value; expected %q or nothing", cluster.RebootAsk)
	checkDescription(f, p.Description)
	f.CheckMeta("meta", p.Meta)
	if c := p.SchedulerConfiguration; c != nil {
		f := f.At("scheduler_config")
		known := []string{cluster.AlgorithmBinpack, cluster.AlgorithmSpread}

		// "" stands for the algorithm of the cluster.
		f.Require(c.SchedulerAlgorithm == "" || slices.Contains(known, c.SchedulerAlgorithm),
			"scheduler_algorithm %q must be %s", c.SchedulerAlgorithm, field.OneOf(known))
	}

	return f.Err()
}

// SchedulerConfig checks the algorithm.
func SchedulerConfig(c *cluster.SchedulerConfiguration) error {
	switch c.SchedulerAlgorithm {
	case cluster.AlgorithmBinpack, cluster.AlgorithmSpread:
	default:
		return structs.Invalidf("SchedulerAlgorithm is %q; expected %q or %q",
			structs.Cut(c.SchedulerAlgorithm, structs.MaxQuoted), cluster.AlgorithmBinpack,
			cluster.AlgorithmSpread)
	}
	return nil
}

// The most that a configuration of autopilot may name.
const (
	maxTrailingLogs = 10_000_000
	maxMinQuorum    = 1000
)

// AutopilotConfig checks the bounds of the numbers and times.
func AutopilotConfig(c *cluster.AutopilotConfig) error {
	switch {
	case c.LastContactThreshold <= 0 || c.LastContactThreshold > structs.MaxInterval:
		return structs.Invalidf("LastContactThreshold is %s; expected more than 0 and at most %s",
			c.LastContactThreshold, structs.MaxInterval)
	case c.MaxTrailingLogs < 1 || c.MaxTrailingLogs > maxTrailingLogs:
		return structs.Invalidf("MaxTrailingLogs is %d; expected 1 to %d", c.MaxTrailingLogs, maxTrailingLogs)
	case c.MinQuorum > maxMinQuorum:
		return structs.Invalidf("MinQuorum is %d; expected 0 to %d", c.MinQuorum, maxMinQuorum)
	case c.MostVoters > maxMinQuorum:
		return structs.Invalidf("MostVoters is %d; expected 0 to %d", c.MostVoters, maxMinQuorum)
	case c.ServerStabilizationTime < 0 || c.ServerStabilizationTime > structs.MaxInterval:
		return structs.Invalidf("ServerStabilizationTime is %s; expected 0 to %s",
			c.ServerStabilizationTime, structs.MaxInterval)
	}

	return nil
}

// NodeDrain checks the bounds of the request.
func NodeDrain(r *structs.NodeDrainRequest) error {
	// Every server keeps the notes with the node, in memory and in each snapshot.
	size := 0
	for name, value := range r.Meta {
		size += len(name) + len(value)
	}
	if size > structs.MaxDrainMeta {
		return structs.Invalidf("Meta: %d bytes; at most %d are allowed", size, structs.MaxDrainMeta)
	}
	return DrainSpec(r.DrainSpec)
}

// DrainSpec checks the bounds of a drain, which may be nil.
func DrainSpec(s *structs.DrainSpec) error {
	if s != nil && s.Deadline > structs.MaxDrainDeadline {
		return structs.Invalidf("Deadline: %s; at most %s is allowed; 0 means none",
			s.Deadline, structs.MaxDrainDeadline)
	}
	return nil
}

// JobSubmission checks the format. It checks no other field, because the servers do not parse the source.
func JobSubmission(s *structs.JobSubmission) error {
	formats := []string{structs.FormatHCL1, structs.FormatHCL2, structs.FormatJSON}
	if !slices.Contains(formats, s.Format) {
		return structs.Invalidf("Submission.Format is %q; expected %q, %q or %q",
			structs.Cut(s.Format, structs.MaxQuoted), structs.FormatHCL2, structs.FormatJSON,
			structs.FormatHCL1)
	}

	if n := len(s.VariableFlags); n > structs.MaxVariables {
		return structs.Invalidf("Submission.VariableFlags has %d entries; at most %d are allowed",
			n, structs.MaxVariables)
	}

	return nil
}

// ScalingEvent checks the parts that a caller gives.
func ScalingEvent(e *structs.ScalingEvent) error {
	if len(e.Message) > structs.MaxScalingMessage {
		return structs.Invalidf("Message has %d bytes; at most %d are allowed", len(e.Message),
			structs.MaxScalingMessage)
	}

	// The nesting comes first: the encoder below would follow any depth.
	if !field.NestsWithin(e.Meta, structs.MaxConfigNesting) {
		return structs.Invalidf("Meta nests maps and lists more than %d levels deep",
			structs.MaxConfigNesting)
	}

	b, err := json.Marshal(e.Meta)
	switch {
	case err != nil:
		return structs.Invalidf("Meta: %v", err)
	case len(b) > structs.MaxScalingMeta:
		return structs.Invalidf("Meta has %d bytes as JSON; at most %d are allowed", len(b),
			structs.MaxScalingMeta)
	case e.Error && e.Count != nil:
		return structs.Invalidf("Count: an error changes no count; leave it out, or Error")
	}

	return nil
}
