package structs

import "testing"

// inConsul gives the group a service in Consul with edits.
func inConsul(edit func(*Service)) func(*Job) {
	return serving(func(s *Service) { s.Provider = ServiceProviderConsul }, edit)
}

func weighted(w ServiceWeights) func(*Job) {
	return inConsul(func(s *Service) { s.Weights = &w })
}

func TestServiceWeights_AreAtLeastOne(t *testing.T) {
	j := testJob(weighted(ServiceWeights{Passing: -1}))
	if w := j.TaskGroups[0].Services[0].Weights; *w != (ServiceWeights{Passing: 1, Warning: 1}) {
		t.Errorf("got %+v", w)
	}
}
