package acls

// The bounds on rows.
const (
	MaxPolicies = maxPolicies
	MaxRoles    = maxRoles
	MaxTokens   = maxTokens
	MaxMethods  = maxMethods
	MaxRules    = maxRules
	MaxOneTimes = maxOneTimes
)
