-- Sends the same request again and again or, with a list of forms, each form in turn.
wrk.method = os.getenv("BENCH_METHOD")
for name, value in string.gmatch(os.getenv("BENCH_HEADERS"), "([^\n:]+): ([^\n]+)") do
   wrk.headers[name] = value
end

local bodies = {}
for body in io.lines(os.getenv("BENCH_BODIES")) do
   bodies[#bodies + 1] = body
end
wrk.body = bodies[1]

local threads = 0
function setup(thread)
   thread:set("first", threads)
   threads = threads + 1
end

local made = {}
function init()
   if #bodies < 2 then
      return
   end
   for i, body in ipairs(bodies) do
      -- Each form comes from one of 4,000 IP addresses in 16 networks, by its forwarding header.
      wrk.headers["X-Forwarded-For"] = "198.18." .. i % 16 .. "." .. math.floor(i / 16) % 250 + 1
      made[i] = wrk.format(nil, nil, nil, body)
   end
   local at = first * math.floor(#made / 2)
   request = function()
      at = at % #made + 1
      return made[at]
   end
end
