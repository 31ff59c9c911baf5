package api

import (
	"net/http"
	"strings"

	"berth/structs"
)

const licensePath = "/v1/operator/license"

const (
	noLicense         = "berth needs no license"
	noRecommendations = "berth recommends no resources; berth alloc status -stats shows the use of an allocation"
	noSentinel        = "write an admission rule instead: berth admission apply"
)

// enterprisePaths has the paths with what berth has in their place. One that ends in a slash has all below
// it.
var enterprisePaths = []struct{ path, instead string }{
	{licensePath, noLicense},
	{"/v1/operator/utilization", noLicense},
	{"/v1/recommendation", noRecommendations},
	{"/v1/recommendation/", noRecommendations},
	{"/v1/recommendations", noRecommendations},
	{"/v1/recommendations/apply", noRecommendations},
	{"/v1/sentinel/policies", noSentinel},
	{"/v1/sentinel/policy/", noSentinel},
}

// isEmptyEnterprise reports whether the answer is the status 204: by it clients that ask for the license
// learn the edition.
func isEmptyEnterprise(r *http.Request) bool {
	return r.URL.Path == licensePath && r.Method == http.MethodGet
}

// rejectEnterprise returns the error for a request to the enterprise edition, and nil for any other request.
// The dialect's other edition gives the same answers, so its tools show the reason.
func rejectEnterprise(r *http.Request) error {
	for _, p := range enterprisePaths {
		if r.URL.Path != p.path && !(strings.HasSuffix(p.path, "/") && strings.HasPrefix(r.URL.Path, p.path)) {
			continue
		}
		return StatusError{
			Err:    structs.Preconditionf("Nomad Enterprise only endpoint: %s", p.instead),
			Status: http.StatusNotImplemented,
		}
	}
	return nil
}
