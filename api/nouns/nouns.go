// Package nouns links the packages below api that have the routes of one noun each. A program that serves
// the API imports it: a package that is not linked declares no routes.
package nouns

import (
	_ "berth/api/acls"
	_ "berth/api/admissions"
	_ "berth/api/agents"
	_ "berth/api/events"
	_ "berth/api/identities"
	_ "berth/api/jobs"
	_ "berth/api/logins"
	_ "berth/api/nodemetas"
	_ "berth/api/quotas"
	_ "berth/api/volumes"
)
