package redisguard_test

import (
	"log"

	"authguard/guard"
	"authguard/guard/redisguard"
)

// Each process of the site does this, with the same secret.
func ExampleDefault() {
	g, err := redisguard.Default([]byte("sixteen random bytes, or more"), redisguard.Config{
		Server:   redisguard.Server{Addresses: []string{"redis.internal:6379"}},
		OnChange: func(up bool, why error) { log.Println("together:", up, why) },
	}, func(d *guard.Defaults) { d.Policy.Account[0].Failures = 3 })
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
}
