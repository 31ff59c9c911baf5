package endpoints

import "berth/structs"

// ofSomeTypes has the fields of a job that only jobs of some types have, or of which a job has one.
var ofSomeTypes = map[string]bool{
	".TaskGroups[0].Services[0].Checks[0].Args":            true,
	".TaskGroups[0].Tasks[0].Services[0].Checks[0].Header": true,
	".Periodic":              true,
	".ParameterizedJob":      true,
	".Update":                true,
	".Migrate":               true,
	".TaskGroups[0].Update":  true,
	".TaskGroups[0].Migrate": true,

	".TaskGroups[0].Scaling.Target": true, // it is emptied

	".TaskGroups[0].Tasks[0].Kind":                true, // refused
	".TaskGroups[0].Services[0].Connect":          true,
	".TaskGroups[0].Tasks[0].Services[0].Connect": true,
}

// filledParents returns jobs that start others, with all that they can have.
func filledParents() []*structs.Job {
	periodic := filledBatch()
	periodic.Periodic = &structs.PeriodicConfig{Enabled: true, Specs: []string{"@daily"}}
	periodic.Canonicalize()
	parameterized := filledBatch()
	parameterized.ParameterizedJob = &structs.ParameterizedJobConfig{
		MetaRequired: []string{"a"},
		MetaOptional: []string{"b"},
	}
	parameterized.Canonicalize()
	return []*structs.Job{periodic, parameterized}
}

func filledBatch() *structs.Job {
	j := filledJob()
	j.Type = structs.JobBatch
	j.Update = nil
	j.Migrate = nil
	for _, g := range j.TaskGroups {
		g.Update = nil
		g.Migrate = nil
	}
	return j
}
