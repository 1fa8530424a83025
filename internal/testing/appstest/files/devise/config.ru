# A Rails app with Devise as its generator leaves it, that counts the passwords.
require "logger"
require "rails"
require "action_controller/railtie"
require "active_record/railtie"
require "devise"
require "devise/orm/active_record"

ENV["DATABASE_URL"] = "sqlite3:{{folder}}/db.sqlite3?pool=40"

class App < Rails::Application
  config.load_defaults 6.1
  config.root = "{{folder}}"
  config.eager_load = false
  config.consider_all_requests_local = false
  config.hosts.clear
  config.log_level = :warn
  config.logger = Logger.new($stderr)
  config.secret_key_base = "not a secret, " * 4
  config.session_store :cookie_store, key: "_app_session"
  config.action_dispatch.trusted_proxies = []
end

Devise.setup do |config|
  config.mailer_sender = "nobody@example.org"
  config.stretches = 4
  config.secret_key = "not a secret, " * 4
  config.sign_out_via = :get
end

class User < ActiveRecord::Base
  devise :database_authenticatable
  def valid_password?(password)
    File.open("{{guesses}}", "a") { |f| f.puts email }
    super
  end
end

App.initialize!

class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception
end

class HomeController < ApplicationController
  before_action :authenticate_user!, only: :account
  def index = render(plain: "Welcome")
  def account = render(plain: "Hello #{current_user.email}")
end

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:users) { |t| t.string :email, null: false; t.string :encrypted_password, null: false }
end unless ActiveRecord::Base.connection.table_exists?(:users)

User.create!(email: "{{user}}@example.org", password: "{{password}}") if User.none?
User.create!(email: "mallory@example.org", password: "{{password}}") if User.count < 2
run App
